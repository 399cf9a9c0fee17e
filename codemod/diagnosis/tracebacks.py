"""Tracebacks out of the lines of a log, however they were printed: Python, IPython old and new, rich, loguru."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from .lines import LogLine

MAX_FRAMES = 200
"""Of a deep recursion the outer and the inner half of these are kept."""
MAX_OPEN = 512
"""Ranks whose tracebacks are followed at the same time."""
MAX_MESSAGE_LINES = 12

_PYTHON = re.compile(r'(?:File )?["“]?([^"“”<>|]{1,400}?\.pyx?|<[^<>]{1,80}>)["”]?, line (\d{1,7})(?:, in (.{1,200}))?')
_IPYTHON = re.compile(r"File ([^\s:](?:[^:]|:(?=[\\/])){0,400}\.py):(\d{1,7}), in (.{1,200})")
_CELL = re.compile(r"(?:Cell |Input )?In ?\[(\d{1,6})\],? (?:line (\d{1,6})(?:, in (.{1,200}))?|in (.{1,200}))")
_OLD_IPYTHON = re.compile(r"(\S{1,400}\.py|<ipython-input[^<>]{1,80}>) in (\S{1,120}\(.{0,300}|<module>)")
_RICH = re.compile(r"((?:[A-Za-z]:)?[\w./\\~ -]{1,300}\.py):(\d{1,7}) in (\S{1,200})")
_ARROW = re.compile(r"(?:-{1,8}>|❱)\s{0,4}(\d{1,7})\s?(.{0,300})")
_ERROR = re.compile(
    r"(?:^|[\s`\"'(\[*#:>])((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,80}(?:Error|Exception|Interrupt)|AssertionError)\b"
    r"(?:[:\uff1a]|\s?$)\s?(.{0,2000})"
)
_WARNING = re.compile(
    r"(\S{0,400}?\.py):(\d{1,7}): ([A-Z]\w{0,60}Warning): (.{0,2000})|(?:^|\s)([A-Z]\w{0,60}Warning): (.{0,2000})"
)
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_CARETS = re.compile(r"[\s~^]{1,2000}")
_NOT_A_MESSAGE = ('File "', "Traceback (most recent", "[rank", "During handling", "The above exception", "frame #")


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One entry of a traceback."""

    path: str
    """As printed; ``<cell 3>`` for a notebook's."""
    row: int
    function: str = ""
    code: str = ""

    @property
    def posix(self) -> str:
        return self.path.replace("\\", "/")


@dataclass(frozen=True, slots=True)
class Raised:
    """One exception: its frames, outermost first, and what it said."""

    kind: str
    message: str
    row: int
    """The row of the log on which the message stands."""
    frames: tuple[StackFrame, ...] = ()
    stream: str = ""
    chained: bool = False
    """Whether it was raised while another one, printed before it, was handled."""
    is_warning: bool = False


@dataclass(slots=True)
class _Open:
    """What has been read of one stream's traceback."""

    frames: list[StackFrame] = field(default_factory=list)
    left_out: int = 0
    chained: bool = False
    said: Raised | None = None
    """The exception whose message may go on in the next lines."""
    lines: int = 0

    def add(self, frame: StackFrame) -> None:
        self.frames.append(frame)
        if len(self.frames) > MAX_FRAMES:
            del self.frames[MAX_FRAMES // 2]


class LogReader:
    """Takes the lines of a log in order and gives the exceptions and warnings in them."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}

    def read(self, line: LogLine) -> Iterator[Raised]:
        """What is complete once this line is known."""
        state = self._state(line.stream)
        text = line.text.strip()
        if state.said is not None:
            if self._goes_on(state, text):
                return
            yield from self._closed(state)
        frame = frame_in(text)
        if frame is not None:
            warned = _warning_in(line, text)
            if warned is None:
                state.add(frame)
                return
            yield warned
        elif text.startswith(_CHAINED):
            state.chained = True
        elif text.startswith("Traceback (most recent"):
            state.frames.clear()
        else:
            yield from self._spoken(state, line, text)

    def end(self) -> Iterator[Raised]:
        """What was still open when the log ended."""
        for state in self._open.values():
            yield from self._closed(state)

    @property
    def broken_off(self) -> tuple[StackFrame, ...]:
        """The frames of a traceback whose last line is missing: people paste what fits."""
        left = [state.frames for state in self._open.values() if state.frames]
        longest: list[StackFrame] = max(left, key=len, default=[])
        return tuple(longest)

    def _state(self, stream: str) -> _Open:
        if stream not in self._open and len(self._open) >= MAX_OPEN:
            stream = next(iter(self._open))
        return self._open.setdefault(stream, _Open())

    def _spoken(self, state: _Open, line: LogLine, text: str) -> Iterator[Raised]:
        warned = _warning_in(line, text)
        if warned is not None:
            yield warned
            return
        found = error_in(text)
        if found is None:
            _attach_code(state, text)
            return
        kind, message = found
        if state.frames and _is_code(text):
            _attach_code(state, text)
            return
        frames = tuple(state.frames)
        state.said = Raised(kind, message, line.row, frames, line.stream, state.chained)
        state.frames, state.chained, state.lines = [], False, 0

    def _goes_on(self, state: _Open, text: str) -> bool:
        """Whether a line belongs to the message before it."""
        assert state.said is not None
        state.lines += 1
        ends = not text or state.lines > MAX_MESSAGE_LINES or text.startswith(_NOT_A_MESSAGE)
        if ends or frame_in(text) is not None or error_in(text) is not None or _WARNING.search(text):
            return False
        state.said = replace(state.said, message=f"{state.said.message} {text}".strip()[:4000])
        return True

    def _closed(self, state: _Open) -> Iterator[Raised]:
        if state.said is not None:
            yield state.said
        state.said = None


def frame_in(text: str) -> StackFrame | None:
    """The entry of a traceback that a line is."""
    if ", line " in text:
        match = _PYTHON.search(text)
        if match is not None:
            return StackFrame(match.group(1).strip(), int(match.group(2)), (match.group(3) or "").strip())
    if text.startswith(("File ", "Cell In", "Input In", "In [")):
        match = _IPYTHON.match(text)
        if match is not None:
            return StackFrame(match.group(1), int(match.group(2)), _name(match.group(3)))
        match = _CELL.match(text)
        if match is not None:
            function = match.group(3) or match.group(4) or ""
            return StackFrame(f"<cell {match.group(1)}>", int(match.group(2) or 0), _name(function))
    if (" in " in text and ".py" in text) or text.startswith("<ipython-input"):
        match = _RICH.match(text)
        if match is not None:
            return StackFrame(match.group(1).strip(), int(match.group(2)), _name(match.group(3)))
        match = _OLD_IPYTHON.match(text)
        if match is not None:
            return StackFrame(match.group(1), 0, _name(match.group(2)))
    return None


def error_in(text: str) -> tuple[str, str] | None:
    """The class and message of the exception that a line names."""
    if "Error" not in text and "Exception" not in text and "Interrupt" not in text:
        return None
    match = _ERROR.search(text)
    return (match.group(1).rpartition(".")[2], match.group(2).strip()) if match is not None else None


def _name(function: str) -> str:
    return function.partition("(")[0].strip() or function.strip()


def _is_code(text: str) -> bool:
    """Whether a line is source that a traceback shows, and no message: ``raise ValueError(...)``, ``except X:``."""
    return text.startswith(("raise ", "except ", "assert ", "warnings.warn(", "return ", "-->", "--->", "❱"))


def _warning_in(line: LogLine, text: str) -> Raised | None:
    if "Warning: " not in text:
        return None
    match = _WARNING.search(text)
    if match is None:
        return None
    path, row, kind, said, bare_kind, bare = match.groups()
    frames = (StackFrame(path, int(row)),) if path else ()
    message = (said or bare or "").strip()
    return Raised(kind or bare_kind, message, line.row, frames, line.stream, is_warning=True)


def _attach_code(state: _Open, text: str) -> None:
    """Give the last entry the source line that stands below it."""
    if not state.frames or not text or _CARETS.fullmatch(text):
        return
    last = state.frames[-1]
    arrow = _ARROW.match(text)
    if arrow is not None:
        state.frames[-1] = replace(last, row=last.row or int(arrow.group(1)), code=arrow.group(2).strip()[:300])
    elif not last.code:
        state.frames[-1] = replace(last, code=text[:300])
