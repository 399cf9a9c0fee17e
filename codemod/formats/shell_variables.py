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
PASSED = re.compile(r"\$(?:\d|\{\d\})")
"""An argument of the script."""
PLAIN = re.compile(r"[\w./:+,@%=~-]*")
"""What the shell takes as it is written."""
OVERRIDE = re.compile(r"\+*(?P<key>[A-Za-z_][\w.]*)=(?P<value>[\w-]+)")
"""A setting on a command line, as Hydra and OmegaConf take it."""
SETTINGS = (".yaml", ".yml", ".json", ".toml")
"""How the names of files end that a loop may go through, without being several commands to whoever reads them."""
_MAX_HOPS = 5
"""Through how many variables words are followed to the command line that gets them."""
_MAX_LENGTH = 4_000
"""How long a known value can be, in characters and words."""
_MAX_PLACES = 200
"""How many uses of one variable are noted."""


@dataclass(frozen=True, slots=True)
class VariableUse:
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
    _uses: dict[str, list[VariableUse]] = field(default_factory=dict)
    _commands: dict[str, list[VariableUse]] = field(default_factory=dict)
    _loops: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def loop(self, name: str, words: Iterable[str]) -> None:
        """A variable gets one word after the other: ``for config in "${CONFIGS[@]}"``."""
        self._values.pop(name, None)
        values = tuple(self.filled(words))
        is_long = sum(map(len, values)) > _MAX_LENGTH
        self._loops[name] = () if is_long else values

    def assign(self, name: str, at: int, words: Sequence[str], *, plus: bool, extends: bool, sometimes: bool) -> None:
        """A variable gets a value: behind the one it has (``plus``), or with it in it (``extends``).

        ``sometimes``: under a condition. Of several values of which conditions choose one, none is known; but what the
        script is passed counts only where somebody passes it, as in ``${1:-conf/base.yaml}``.
        """
        if sometimes and len(words) == 1 and PASSED.fullmatch(words[0]) and self._values.get(name):
            return
        present = self._values.get(name, ())
        given: tuple[str, ...] | None = tuple(self.filled(words))
        if plus:
            given = (*present, *(given or ())) if present is not None else None
        elif sometimes and not extends and name in self._values:
            given = None
        elif not sometimes and not extends:
            self._loops.pop(name, None)
            self._assigned.setdefault(name, []).append(at)
        is_long = given is not None and sum(map(len, given)) + len(given) > _MAX_LENGTH
        self._values[name] = None if is_long else given

    def filled(self, words: Iterable[str]) -> Iterator[str]:
        """Words with the values of variables that are known; a word that is only a variable may become several."""
        for word in (each for given in words for each in self._of_loop(given)):
            word = REFERENCE.sub(self._set_or_default, word)
            value = self._values.get(variable_of(word))
            yield from (NAMED.sub(self._filled, word),) if value is None else value

    def _of_loop(self, word: str) -> Sequence[str]:
        """The names of all files of settings that a word stands for in the rounds of a loop."""
        match = NAMED.search(word) if self._loops else None
        name = _name(match) if match is not None else ""
        found = [
            NAMED.sub(lambda each, value=value: value if _name(each) == name else each[0], word)  # type: ignore[misc]
            for value in self._loops.get(name, ())
        ]
        return found if found and all(item.endswith(SETTINGS) for item in found) else [word]

    def _set_or_default(self, match: re.Match[str]) -> str:
        value = self._values.get(match[1], ()) if match[2] else None
        return match[0] if value is None else " ".join(value) or match[3]

    def _filled(self, match: re.Match[str]) -> str:
        value = self._values.get(_name(match))
        return " ".join(value) if value else match[0]

    def used(self, name: str, use: VariableUse) -> None:
        """Note that a word expands the variable; in its own new value it is only extended."""
        uses = self._uses.setdefault(name, [])
        if len(uses) < _MAX_PLACES and (use.owner != "variable" or use.command not in ("", name)):
            uses.append(use)

    def is_used_within(self, name: str, start: int, end: int) -> bool:
        """Whether a use in this range is noted already."""
        return any(start <= use.at < end for use in self._uses.get(name, ()))

    def hold(self, name: str, use: VariableUse) -> None:
        """Note that the variable's value is a command line, or begins one."""
        if len(held := self._commands.setdefault(name, [])) < _MAX_PLACES:
            held.append(use)

    def held(self, word: str, at: int, *, is_alone: bool) -> Iterator[VariableUse]:
        """The command lines that a word stands for: ``$CMD``. Beside the last one those of other branches that lack a
        script, which this line gives them, or what is put into the variable later (``is_alone``)."""
        name = variable_of(word)
        last = self._held(name, at)
        since = max((place for place in self._assigned.get(name, ()) if place <= at), default=0)
        for use in self._commands.get(name, ()) if last is not None else ():
            is_whole = use.owner == "script" and (is_alone or not use.command.startswith("$"))
            if use is last or (since <= use.at < at and not is_whole):
                yield use

    def _held(self, name: str, at: int) -> VariableUse | None:
        return next((use for use in reversed(self._commands.get(name, ())) if use.at <= at), None)

    def takers(self, name: str, at: int) -> Sequence[VariableUse]:
        """The command lines that get the words that a variable is given at ``at``, in the order of the text."""
        found = {use.call: use for use in self._takers(name, at, _MAX_HOPS)}
        return [found[call] for call in sorted(found)]

    def _takers(self, name: str, at: int, hops: int) -> Iterator[VariableUse]:
        held = self._held(name, at)
        if held is not None:
            yield held
            return
        for use in self._uses_of(name, at):
            if use.owner != "variable":
                yield use
            elif hops:
                yield from self._takers(use.command, use.at, hops - 1)

    def _uses_of(self, name: str, at: int) -> list[VariableUse]:
        """The uses from here to the next new value; where a text uses it only above (in a function), the first."""
        behind = [use for use in self._uses.get(name, ()) if use.at > at]
        places = self._assigned.get(name, [])
        later = bisect_right(places, at)
        until = places[later] if later < len(places) else None
        return [use for use in behind if until is None or use.at < until] if behind else self._uses.get(name, [])[:1]


def names_in(word: str) -> Iterator[str]:
    """The variables and arguments in a word, those of a default as well: ``${P:-${Q}}``."""
    for match in REFERENCE.finditer(word):
        yield match[1] or match[4]
        yield from names_in(match[3] or "")


def variable_of(word: str) -> str:
    """The variable that a word is and nothing else: ``$CMD``, ``"${ARGS[@]}"``; "" for other words."""
    match = NAMED.fullmatch(word)
    return "" if match is None else _name(match)


def _name(match: re.Match[str]) -> str:
    return match[1] or match[2] or match[3]
