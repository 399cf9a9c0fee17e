"""A dialogue in whole lines: it works on any terminal, in any encoding, without color and without control codes."""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import TextIO

from ..model import UsageError
from ..report.frame import OutputLine
from ..report.printable import printable
from ..report.text import show


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where questions are written and answers come from."""

    source: TextIO
    out: TextIO
    color: bool | None = None
    """None: where ``out`` is a terminal and ``NO_COLOR`` is not set."""

    @classmethod
    def here(cls, color: bool | None = None) -> Terminal:
        """Answers from stdin, questions on stderr, so that stdout holds the result alone; raises UsageError."""
        for stream, name, purpose in ((sys.stdin, "stdin", "answers come"), (sys.stderr, "stderr", "questions go")):
            if stream is None or stream.closed or not stream.isatty():
                raise UsageError(f"--interactive needs a terminal: {name}, where {purpose}, is none")
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")
        return cls(sys.stdin, sys.stderr, color)

    def show(self, *lines: OutputLine) -> None:
        """Write styled lines."""
        show(lines, self.out, color=self.color)

    def say(self, text: str) -> None:
        """Write a remark."""
        self.show(((printable(text), "note"),))

    def ask(self, question: str) -> str | None:
        """The answer, without blanks around it; None at the end of input. Ctrl-C passes through."""
        try:
            self.out.write(question)
            self.out.flush()
            line = self.source.readline()
        except KeyboardInterrupt:
            self.out.write("\n")
            raise
        if not line.endswith("\n"):
            self.out.write("\n")
        return line.strip() if line else None
