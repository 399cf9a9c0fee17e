"""Functions of a shell text that start a program with what they are given: ``train() { python train.py "$@"; }``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_ARGUMENTS = re.compile(r"\$(?:[@*]|\{[@*](?::\d+)?\})")
"""All that a function is given, or all from some place on."""


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """What a function starts."""

    words: tuple[str, ...]
    """The words before those that it is given."""
    call: int
    """Which of the text's command lines it is."""


@dataclass(slots=True)
class ShellFunctions:
    """The functions that have been read so far, and the one whose body is being read."""

    _open: str = ""
    _bodies: dict[str, FunctionBody] = field(default_factory=dict)

    def enter(self, words: Sequence[str], after: str) -> bool:
        """Note where a body begins and ends, ``name() {``, ``function name {``, ``}``; whether this is a name alone."""
        if words[:1] == ["function"] and len(words) > 1:
            self._open = words[1]
        elif len(words) == 1 and after == "(":
            self._open = words[0]
            return True
        elif words[:1] == ["}"]:
            self._open = ""
        return False

    def note(self, words: Sequence[str], number: int) -> FunctionBody | None:
        """Note a command line of the text; gives what the function starts that it calls."""
        given = next((index for index, word in enumerate(words) if _ARGUMENTS.fullmatch(word)), None)
        if self._open and given is not None:
            self._bodies.setdefault(self._open, FunctionBody(tuple(words[:given]), number))
        return self.body(words)

    def body(self, words: Sequence[str]) -> FunctionBody | None:
        """What a command starts that calls a function."""
        return self._bodies.get(words[0]) if words and words[0] != self._open else None
