"""The lines of a log as the program meant them: without colors, time stamps, ranks, quotes and progress bars.

All of it takes time linear in the bytes: a line is cut, and looked at a fixed number of times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BYTES = 64 * 1024 * 1024
"""A longer log is read at its two ends."""
HEAD_BYTES = 8 * 1024 * 1024
MAX_LINE = 2_000
MAX_PREFIXES = 6

_ANSI = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_BARE_ANSI = re.compile(r"(?:\\u001b|\\x1b|\\033|␛)?\[\d{1,3}(?:;\d{1,3}){0,4}m")
_PROGRESS = re.compile(r"\d{1,3}%\||\d[\d.]{0,10}\s?(?:it/s|s/it|[kMG]?i?B/s|ba/s|ex/s)\b|━{6}|█{4}")
_BARS = ("%|", "it/s", "s/it", "B/s", "ba/s", "ex/s", "\u2501" * 6, "\u2588" * 4)
"""One of these stands in every progress bar."""
_BORDERS = "│┃║|❱ \t"
_RANK = re.compile(r"\s{0,8}\[(?:rank|default|worker|gpu|local_rank)[ :=]{0,2}(\d{1,5})\]:?\s?", re.IGNORECASE)
_SLURM = re.compile(r"\s{0,3}(\d{1,4}): ")
_RAY = re.compile(r"\s{0,4}\(([A-Za-z_][\w.: -]{0,80}pid=\d{1,9}(?:, ip=[\d.]{7,15})?)\)\s?")
_COMPOSE = re.compile(r"([A-Za-z][\w.-]{0,60})\s{1,20}\| ")
_TIME = re.compile(
    r"\s{0,4}[\[(]?(?:\d{4}[-/]\d\d[-/]\d\d[T ,_]?)?\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?:Z|[+-]\d\d:?\d\d| ?UTC)?[\])]?[ ,:|-]{0,4}"
)
_DATE = re.compile(r"\s{0,4}[\[(]?\d{4}[-/]\d\d[-/]\d\d[\])]?[ ,:|-]{1,4}")
_GLOG = re.compile(r"\s{0,4}[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{1,9}\s+\d{1,9} [\w/.\\-]{1,200}:\d{1,6}\] ?")
_LEVEL = re.compile(
    r"\s{0,4}[-|:\[(]{0,2} {0,2}(?:INFO|ERROR|WARNING|WARN|DEBUG|CRITICAL|FATAL|stderr|stdout)(?![\w.(])[\])]{0,2}"
    r"[ :|-]{1,6}"
)
_LINK = re.compile(r"\[([^\[\]]{1,300})\]\((?:https?|vscode)[^()]{1,600}\)")
_QUOTE = re.compile(r"\s{0,3}(?:>\s{0,2})+")
_PLAIN_PREFIXES = (_TIME, _DATE, _GLOG, _LEVEL)
_STREAMS = (_RANK, _RAY, _SLURM, _COMPOSE)
_STARTS = frozenset("[(>0123456789IWEFCDSs -|:")


@dataclass(frozen=True, slots=True)
class LogLine:
    row: int
    text: str
    stream: str = ""
    """Which rank or process wrote it; empty where nothing says so."""


def lines_of(data: bytes) -> Iterator[LogLine]:
    """The lines that say something."""
    row = 1
    parts = [data[:HEAD_BYTES], data[HEAD_BYTES - MAX_BYTES :]] if is_cut(data) else [data]
    for number, part in enumerate(parts):
        text = part.decode("utf-16" if part[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace")
        if number:
            row = 1 + data.count(b"\n", 0, len(data) - len(part))
        for line in text.split("\n"):
            yield from _cleaned(line, row)
            row += 1


def is_cut(data: bytes) -> bool:
    """Whether the middle of a log is not read."""
    return len(data) > MAX_BYTES


def _cleaned(line: str, row: int) -> Iterator[LogLine]:
    """A line between two newlines; a progress bar writes over it with carriage returns."""
    for segment in line.split("\r"):
        segment = segment[:MAX_LINE]
        if "\x1b" in segment:
            segment = _ANSI.sub("", segment)
        if "[" in segment and "m" in segment:
            segment = _BARE_ANSI.sub("", segment)
        if "](" in segment:
            segment = _LINK.sub(r"\1", segment)
        if not segment or segment.isspace():
            if not segment:
                yield LogLine(row, "")
            continue
        if any(mark in segment for mark in _BARS) and _PROGRESS.search(segment):
            segment = _behind_progress(segment)
            if not segment:
                continue
        stream, text = _without_prefixes(segment)
        yield LogLine(row, text, stream)


def _behind_progress(segment: str) -> str:
    """What a program wrote on the line of its progress bar; empty for the bar alone."""
    match = _SAYING.search(segment)
    if match is None:
        return ""
    start = match.start()
    while start and not segment[start - 1].isspace():
        start -= 1
    return segment[start:]


_SAYING = re.compile(r"Traceback \(most|Error|Exception|Warning|\{?'loss'|Gradient overflow|  File \"|[Nn]a[Nn]\b")


def _without_prefixes(text: str) -> tuple[str, str]:
    stream = ""
    for _ in range(MAX_PREFIXES):
        if text[:1] not in _STARTS and not text[:1].isalpha():
            break
        found = _next_prefix(text)
        if found is None:
            break
        name, end = found
        stream, text = stream or name, text[end:]
    if text[:1] in "│┃║|❱":
        text = text.strip(_BORDERS)
    return stream, text


def _next_prefix(text: str) -> tuple[str, int] | None:
    for pattern in _STREAMS:
        match = pattern.match(text)
        if match is not None:
            return match.group(1), match.end()
    for pattern in _PLAIN_PREFIXES:
        match = pattern.match(text)
        if match is not None and match.end():
            return "", match.end()
    match = _QUOTE.match(text)
    return ("", match.end()) if match is not None and not text.startswith(">>>") else None
