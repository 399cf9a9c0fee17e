"""What a log says, in bounded space: exceptions with their tracebacks, telling lines, versions, devices."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from .lines import LogLine, is_cut, lines_of
from .tracebacks import LogReader, Raised, StackFrame

MAX_STATEMENTS = 400
MAX_FAILURES = 200
MAX_CONTEXT = 150_000
"""Characters of either end of the log that evidence is looked for in."""
BLOCK = 256
_MARKUP = str.maketrans("", "", "`*")
_DIGITS = re.compile(r"\d+")
_VERSION = re.compile(
    r"\b(torch|pytorch|accelerate|transformers|diffusers|peft|trl|lightning|pytorch[-_ ]lightning|deepspeed|xformers"
    r"|bitsandbytes|unsloth|flash[-_]attn|apex|timm|mmcv|mmengine|fairseq|triton|numpy)(?:[ _-]version)?"
    r"(?:\W{0,4}(?:is|==|=|:|\|)\W{0,4}|[ -]{1,3}v?)(\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LogStatement:
    """One thing that the log says and that the catalog may know."""

    text: str
    row: int
    failure: Raised | None = None
    """The exception or warning that says it; None for a line on its own."""
    times: int = 1
    streams: tuple[str, ...] = ()


@dataclass(slots=True)
class Log:
    """What was read."""

    statements: list[LogStatement] = field(default_factory=list)
    failures: list[Raised] = field(default_factory=list)
    broken_off: tuple[StackFrame, ...] = ()
    """The frames of a traceback that the log does not end; used for a message that has none."""
    context: str = ""
    """The log itself, as far as evidence is looked for in it."""
    versions: dict[str, str] = field(default_factory=dict)
    """Library -> version that the log names."""
    rows: int = 0
    cut: bool = False


def read_log(data: bytes, telling: Callable[[str], tuple[str, ...]]) -> Log:
    """The log in ``data``. ``telling`` gives the words of a text in lower case that the catalog asks for."""
    log = Log(cut=is_cut(data))
    collected = _Collected(log)
    reader = LogReader()
    for block in _blocks(lines_of(data)):
        words = telling("\n".join(line.text for line in block).lower())
        for line in block:
            for failure in reader.read(line):
                collected.fail(failure)
            if line.text:
                collected.take(line, words)
            log.rows = line.row
    for failure in reader.end():
        collected.fail(failure)
    log.broken_off = reader.broken_off
    collected.close()
    return log


def _blocks(lines: Iterable[LogLine]) -> Iterable[list[LogLine]]:
    block: list[LogLine] = []
    for line in lines:
        block.append(line)
        if len(block) == BLOCK:
            yield block
            block = []
    yield block


class _Collected:
    """Keeps what differs: a thousand ranks say the same thing."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._failures: dict[tuple[object, ...], list[Raised]] = {}
        self._lines: dict[str, list[LogLine]] = {}
        self._context: dict[str, str] = {}
        self._size = 0
        self._later: dict[str, str] = {}
        self._later_size = 0

    def fail(self, failure: Raised) -> None:
        where = [(frame.path, frame.row) for frame in failure.frames[-3:]]
        key = (failure.kind, _DIGITS.sub("0", failure.message[:300]), *where)
        if key in self._failures or len(self._failures) < MAX_FAILURES:
            same = self._failures.setdefault(key, [])
            if len(same) < MAX_FAILURES:
                same.append(failure)

    def take(self, line: LogLine, words: Iterable[str]) -> None:
        """A line: what it says once is enough, whatever the numbers in it are."""
        key = _DIGITS.sub("0", line.text.strip()[:400])
        same = self._lines.get(key)
        if same is not None:
            if len(same) < MAX_STATEMENTS:
                same.append(line)
        elif key not in self._context and key not in self._later:
            self._remember(key, line.text)
            lowered = line.text.lower()
            plain = lowered.translate(_MARKUP)
            if len(self._lines) < MAX_STATEMENTS and any(word in lowered or word in plain for word in words):
                self._lines[key] = [line]

    def _remember(self, key: str, text: str) -> None:
        """Keep what evidence may be found in: each kind of line once, of a long log its beginning and its end."""
        if self._size < MAX_CONTEXT:
            self._context[key] = text
            self._size += len(text) + 1
            return
        self._later[key] = text
        self._later_size += len(text) + 1
        while self._later_size > MAX_CONTEXT:
            first = next(iter(self._later))
            self._later_size -= len(self._later.pop(first)) + 1

    def close(self) -> None:
        log = self._log
        log.context = "\n".join([*self._context.values(), *self._later.values()])
        for match in _VERSION.finditer(log.context):
            name = re.sub(r"[-_ ]", "-", match.group(1).lower()).replace("pytorch-lightning", "lightning")
            log.versions.setdefault("torch" if name == "pytorch" else name, match.group(2))
        rows = set()
        for same in self._failures.values():
            best = max(same, key=lambda each: len(each.frames))
            log.failures.append(best)
            rows |= {each.row for each in same}
            text = f"{best.kind}: {best.message}"
            streams = tuple(dict.fromkeys(each.stream for each in same if each.stream))
            log.statements.append(LogStatement(text, best.row, best, len(same), streams))
        for lines in self._lines.values():
            if not all(line.row in rows for line in lines):
                streams = tuple(dict.fromkeys(line.stream for line in lines if line.stream))
                log.statements.append(LogStatement(lines[0].text.strip(), lines[0].row, None, len(lines), streams))
        log.failures.sort(key=lambda each: each.row)
        log.statements.sort(key=lambda each: each.row)
