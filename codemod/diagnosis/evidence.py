"""What speaks for a cause: the frames of a traceback and their owners, the dtypes of its message, the log around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..source.reading import FileRefused, read_regular_file
from .catalog import Sign
from .log import Log
from .matching import Match
from .tracebacks import StackFrame

LAST_FRAMES = 4
_LISTED = re.compile(
    r"[-*\s`|]{0,12}[A-Za-z][\w.-]{0,60}`?(?: [vV]ersion)?(?: \(.{0,20}\))?"
    r"[\s:=|~<>]{1,40}v?\d{1,5}(?:\.\d{1,6}).{0,40}"
)
"""A release in a list of what is installed: it does not say that the run used it."""
INSTALLED = ("site-packages/", "dist-packages/", "/lib/python", "\\lib\\", "lib/site-packages", "/conda/pkgs/")
TORCH = ("/torch/", "torch/nn/", "torch/_", "torch/autograd/", "torch/amp/", "torch/cuda/", "torch/utils/")
RUNNERS = ("runpy.py", "threading.py", "<frozen", "multiprocessing/", "concurrent/futures", "asyncio/", "<string>",
           "contextlib.py", "functools.py", "importlib/")  # fmt: skip

MAX_BYTES = 2_000_000
MAX_READ = 8
"""So many of the innermost frames have their source lines looked up in installed libraries: read, never imported."""


@dataclass(frozen=True)
class Evidence:
    """All that a log says around one match."""

    match: Match
    log: Log
    regimes: tuple[str, ...] = ()
    """What the project's runs compute in; empty without a project."""

    @cached_property
    def frames(self) -> tuple[StackFrame, ...]:
        failure = self.match.statement.failure
        if failure is not None and failure.frames:
            return with_sources(failure.frames)
        others = any(each.frames for each in self.log.failures if not each.is_warning)
        return () if others or self.match.entry.kind == "warning" else with_sources(self.log.broken_off)

    @cached_property
    def owned(self) -> list[tuple[StackFrame, str]]:
        return [(frame, owner_of(frame)) for frame in self.frames]

    @cached_property
    def owner(self) -> str:
        """Whose code called torch last; torch where all frames are its own; empty without a traceback."""
        return next((owner for _, owner in reversed(self.owned) if owner != "torch"), "torch" if self.frames else "")

    @cached_property
    def user_frame(self) -> StackFrame | None:
        """The innermost frame of code that is not installed."""
        return next((frame for frame, owner in reversed(self.owned) if owner == "user"), None)

    @cached_property
    def library_frame(self) -> StackFrame | None:
        """The innermost frame of a library, where it is below all code that is not installed."""
        if self.owner != "library":
            return None
        return next(frame for frame, owner in reversed(self.owned) if owner == "library")

    @cached_property
    def _context(self) -> str:
        lines = [line for line in self.log.context.splitlines() if not _LISTED.fullmatch(line)]
        return "\n".join([self.match.statement.text, *lines]).lower()

    @cached_property
    def _paths(self) -> list[str]:
        return [frame.posix.lower() for frame in self.frames]

    def shows(self, condition: Sign) -> str:
        """What is seen of a condition, as a phrase for people; empty for nothing."""
        asked = getattr(self, f"_{condition.about}")
        found: str = asked(condition.values)
        return found

    def _frames(self, values: Sequence[str]) -> str:
        seen = next((path for path in reversed(self._paths) if any(value in path for value in values)), "")
        return f"the traceback passes {_short(seen)}" if seen else ""

    def _ends_in(self, values: Sequence[str]) -> str:
        seen = next((path for path in reversed(self._paths[-LAST_FRAMES:]) if any(v in path for v in values)), "")
        return f"it is raised in {_short(seen)}" if seen else ""

    def _functions(self, values: Sequence[str]) -> str:
        for frame in reversed(self.frames):
            name = frame.function.rpartition(".")[2].lower().strip("_")
            if any(name == value or name.startswith(f"{value}_") or name.endswith(f"_{value}") for value in values):
                return f"the traceback passes the function {frame.function}"
        return ""

    def _code(self, values: Sequence[str]) -> str:
        for frame in reversed(self.frames[-2 * LAST_FRAMES :]):
            code = frame.code.lower()
            if any(value in code for value in values):
                return f"the line is `{frame.code[:100]}`"
        return ""

    def _says(self, values: Sequence[str]) -> str:
        word = next((value for value in values if _stands(value, self._context)), "")
        return f"the log says `{word}`" if word else ""

    def _pair(self, values: Sequence[str]) -> str:
        seen = {self.match.first, self.match.second}
        return f"{' and '.join(sorted(seen))} meet" if seen == set(values) else ""

    def _regime(self, values: Sequence[str]) -> str:
        seen = [regime for regime in self.regimes if regime in values]
        return f"the project runs {seen[0]}" if seen and len(seen) == len(self.regimes) else ""

    def _order(self, values: Sequence[str]) -> str:
        if f"{self.match.first}>{self.match.second}" not in values:
            return ""
        entry = self.match.entry
        named = (entry.first or "the first operand", entry.second or "the second one")
        return f"{named[0]} is {self.match.first} and {named[1]} {self.match.second}"

    def _first(self, values: Sequence[str]) -> str:
        return self._named(self.match.first, values, self.match.entry.first or "the first operand")

    def _second(self, values: Sequence[str]) -> str:
        return self._named(self.match.second, values, self.match.entry.second or "the second operand")

    @staticmethod
    def _named(dtype: str, values: Sequence[str], role: str) -> str:
        return f"{role} is {dtype}" if dtype in values else ""

    def _owner(self, values: Sequence[str]) -> str:
        said = {"user": "the last frame outside torch is not installed code", "torch": "all frames are torch's own"}
        return (
            said.get(self.owner, "the last frame outside torch is an installed library's")
            if self.owner in values
            else ""
        )


def owner_of(frame: StackFrame) -> str:
    """``torch``, ``library`` (installed) or ``user`` (everything else)."""
    path = frame.posix.lower()
    installed = any(mark in path for mark in INSTALLED)
    if any(mark in path for mark in RUNNERS) or (
        any(mark in path for mark in TORCH) and (installed or "torch/nn/" in path)
    ):
        return "torch"
    return "library" if installed else "user"


def _stands(word: str, text: str) -> bool:
    """Whether a word stands in a text: as a whole word where it is one of letters and digits alone."""
    if not word.isalnum():
        return word in text
    at = text.find(word)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(word) : at + len(word) + 1]
        if not before.isalnum() and not after.isalnum():
            return True
        at = text.find(word, at + 1)
    return False


def _short(path: str) -> str:
    return "/".join(path.split("/")[-3:])


def with_sources(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The frames, the innermost of them with their source line where it is missing and the file is here."""
    outer, inner = frames[:-MAX_READ], frames[-MAX_READ:]
    return (*outer, *(frame if frame.code else replace(frame, code=_line(frame)) for frame in inner))


def _line(frame: StackFrame) -> str:
    path = frame.posix
    if not path.startswith("/") or not path.endswith(".py") or not any("/" + mark in path for mark in INSTALLED[:2]):
        return ""
    try:
        lines = read_regular_file(path, MAX_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, FileRefused, ValueError):
        return ""
    return lines[frame.row - 1].strip()[:300] if 1 <= frame.row <= len(lines) else ""
