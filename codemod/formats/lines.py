"""Lines of a text by offset, with every newline convention left as it is."""

from __future__ import annotations

import re

BREAKS = "\n\r"
YAML_BREAKS = "\n\r\x85\u2028\u2029"
_BREAK = {marks: re.compile(f"[{marks}]") for marks in (BREAKS, YAML_BREAKS)}


def row_of(text: str, offset: int) -> int:
    """The 1-based row of ``offset``; ``\\r\\n`` counts once."""
    head = text[:offset]
    return head.count("\n") + head.count("\r") - head.count("\r\n") + 1


def line_start(text: str, offset: int, breaks: str = BREAKS) -> int:
    """Offset of the first character of the line that holds ``offset``."""
    return max(text.rfind(mark, 0, offset) for mark in breaks) + 1


def line_end(text: str, offset: int, breaks: str = BREAKS) -> int:
    """Offset of the line break (or end of text) that ends the line of ``offset``."""
    found = _BREAK[breaks].search(text, offset)
    return found.start() if found else len(text)


def next_line(text: str, offset: int, breaks: str = BREAKS) -> int:
    """Offset of the line after the one that holds ``offset``, or the end of the text."""
    offset = line_end(text, offset, breaks)
    if text.startswith("\r\n", offset):
        return offset + 2
    return min(offset + 1, len(text))


def newline_of(text: str) -> str:
    """The file's newline: that of its first line; ``\\n`` when it has one line only."""
    feed = text.find("\n")
    if feed < 0:
        return "\r" if "\r" in text else "\n"
    return "\r\n" if feed and text[feed - 1] == "\r" else "\n"


def is_blank(text: str, start: int, end: int) -> bool:
    """Whether only spaces and tabs stand in ``text[start:end]``."""
    return not text[start:end].strip(" \t")


def whole_lines(text: str, start: int, end: int, breaks: str = BREAKS) -> tuple[int, int]:
    """The span that removes the lines from ``start`` to ``end``; a text without a final newline stays without."""
    first, after = line_start(text, start, breaks), next_line(text, end, breaks)
    if after == len(text) and after == line_end(text, end, breaks) and first:
        first -= 2 if text[:first].endswith("\r\n") else 1
    return first, after
