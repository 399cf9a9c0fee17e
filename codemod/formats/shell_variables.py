"""What a shell text's variables hold, and which command lines get it: ``ARGS="$ARGS --bf16"``, ``eval $CMD``."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

NAMED = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)(?:\[[@*]\])?\}|\(([A-Za-z_]\w*)\))")
REFERENCE = re.compile(r"\$(?:\{(\w+)(?:(:?[-=])((?:[^${}]|\$\{\w+\})*))?\}|(\w+))")
"""A variable or argument in a word; in ``${CONFIG:-conf/base.yaml}`` with the sign, and with what stands for it where
it is not set."""
PLAIN = re.compile(r"[\w./:+,@%=~-]*")
"""What the shell takes as it is written."""
_MAX_HOPS = 5
"""Through how many variables words are followed to the command line that gets them."""
_MAX_LENGTH = 4_000
"""How long a known value can be, in characters and words."""
_MAX_PLACES = 200
"""How many uses of one variable are noted."""


@dataclass(frozen=True, slots=True)
class Use:
    """A place where a variable is expanded."""

    at: int
    command: str
    """The script or launcher that gets the words; the variable whose string they stand in, where owner is that."""
    owner: str
    """``launcher``, ``script`` or ``variable``."""
    call: int


@dataclass(slots=True)
class Variables:
    """The variables of a text, read from its beginning."""

    _values: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    _assigned: dict[str, list[int]] = field(default_factory=dict)
    _uses: dict[str, list[Use]] = field(default_factory=dict)
    _commands: dict[str, list[Use]] = field(default_factory=dict)

    def assign(self, name: str, at: int, words: Sequence[str], *, plus: bool, extends: bool, sometimes: bool) -> None:
        """A variable gets a value: behind the one it has (``plus``), or with it in it (``extends``).

        ``sometimes``: under a condition. Of several values of which conditions choose one, none is known.
        """
        present = self._values.get(name, ())
        given: tuple[str, ...] | None = tuple(self.filled(words))
        if plus:
            given = (*present, *(given or ())) if present is not None else None
        elif sometimes and not extends and name in self._values:
            given = None
        elif not sometimes and not extends:
            self._assigned.setdefault(name, []).append(at)
        is_long = given is not None and sum(map(len, given)) + len(given) > _MAX_LENGTH
        self._values[name] = None if is_long else given

    def filled(self, words: Iterable[str]) -> Iterator[str]:
        """Words with the values of variables that are known; a word that is only a variable may become several."""
        for word in words:
            word = REFERENCE.sub(self._set_or_default, word)
            value = self._values.get(variable_of(word))
            yield from value or (NAMED.sub(self._filled, word),)

    def _set_or_default(self, match: re.Match[str]) -> str:
        value = self._values.get(match[1], ()) if match[2] else None
        return match[0] if value is None else " ".join(value) or match[3]

    def _filled(self, match: re.Match[str]) -> str:
        value = self._values.get(_name(match))
        return " ".join(value) if value else match[0]

    def used(self, name: str, use: Use) -> None:
        """Note that a word expands the variable; in its own new value it is only extended."""
        uses = self._uses.setdefault(name, [])
        if len(uses) < _MAX_PLACES and (use.owner != "variable" or use.command not in ("", name)):
            uses.append(use)

    def is_used_within(self, name: str, start: int, end: int) -> bool:
        """Whether a use in this range is noted already."""
        return any(start <= use.at < end for use in self._uses.get(name, ()))

    def hold(self, name: str, use: Use) -> None:
        """Note that the variable's value is a command line, or begins one."""
        if len(held := self._commands.setdefault(name, [])) < _MAX_PLACES:
            held.append(use)

    def held(self, word: str, at: int) -> Use | None:
        """The command line that a word stands for: ``$CMD``."""
        return self._held(variable_of(word), at)

    def _held(self, name: str, at: int) -> Use | None:
        return next((use for use in reversed(self._commands.get(name, ())) if use.at <= at), None)

    def takers(self, name: str, at: int) -> Sequence[Use]:
        """The command lines that get the words that a variable is given at ``at``, in the order of the text."""
        found = {use.call: use for use in self._takers(name, at, _MAX_HOPS)}
        return [found[call] for call in sorted(found)]

    def _takers(self, name: str, at: int, hops: int) -> Iterator[Use]:
        held = self._held(name, at)
        if held is not None:
            yield held
            return
        for use in self._uses_of(name, at):
            if use.owner != "variable":
                yield use
            elif hops:
                yield from self._takers(use.command, use.at, hops - 1)

    def _uses_of(self, name: str, at: int) -> list[Use]:
        """The uses from here to the next new value; where a text uses it only above (in a function), the first."""
        behind = [use for use in self._uses.get(name, ()) if use.at > at]
        places = self._assigned.get(name, [])
        later = bisect_right(places, at)
        until = places[later] if later < len(places) else None
        return [use for use in behind if until is None or use.at < until] if behind else self._uses.get(name, [])[:1]


def variable_of(word: str) -> str:
    """The variable that a word is and nothing else: ``$CMD``, ``"${ARGS[@]}"``; "" for other words."""
    match = NAMED.fullmatch(word)
    return "" if match is None else _name(match)


def _name(match: re.Match[str]) -> str:
    return match[1] or match[2] or match[3]
