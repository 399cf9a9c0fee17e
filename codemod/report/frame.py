"""The code frame: the rows around a span, and carets under it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from ..model import EditRefused, Span
from ..source.magics import unmask_cell
from . import SourceText
from .printable import printable_char, width

CONTEXT = 2
"""Rows shown before and after the span."""
MAX_ROWS = 4
"""Rows of the span itself that are shown; the others become ``...``."""
MAX_WIDTH = 110
"""Terminal cells of a row; longer rows are cut around the span."""
TAB = 4

Segment: TypeAlias = tuple[str, str]
"""Text and the name of its style (see text.py)."""
OutputLine: TypeAlias = tuple[Segment, ...]


def frame(source: SourceText, span: Span) -> Iterator[OutputLine]:
    """The lines of a code frame, without newlines; nothing when the span's first row does not exist or is empty."""
    if not source.line(span.row).strip():
        return
    rows = list(_rows(source, span))
    gutter = max(len(_number(source, row)) for row in rows if row)
    yield ((" " * gutter + " |", "gutter"),)
    for row in rows:
        if row == 0:
            yield ((" " * gutter + " | ...", "gutter"),)
            continue
        yield from _row(source, span, row, gutter)


def _rows(source: SourceText, span: Span) -> Iterator[int]:
    """Row numbers to show; 0 stands for rows left out. Context never leaves the span's notebook cell."""
    last = max(span.row, span.end_row - 1 if span.end_column == 1 else span.end_row)
    inside = list(range(span.row, last + 1)) if last - span.row < MAX_ROWS else [*range(span.row, span.row + MAX_ROWS)]
    yield from (row for row in range(span.row - CONTEXT, span.row) if _is_context(source, span, row))
    yield from inside
    if inside[-1] != last:
        yield 0
        return
    after = [row for row in range(last + 1, last + 1 + CONTEXT) if _is_context(source, span, row)]
    while after and not source.line(after[-1]).strip():
        after.pop()
    yield from after


def _is_context(source: SourceText, span: Span, row: int) -> bool:
    cell, home = source.cell_of(row), source.cell_of(span.row)
    return row >= 1 and (cell and cell[0]) == (home and home[0])


def _number(source: SourceText, row: int) -> str:
    cell = source.cell_of(row)
    return str(cell[1] if cell else row)


def _row(source: SourceText, span: Span, row: int, gutter: int) -> Iterator[OutputLine]:
    line = shown_line(source, row)
    marked = span.row <= row <= span.end_row
    low, high = _columns(source, line, span, row) if marked else (0, 0)
    text, start, size = _cut(line, low, high)
    yield (f"{_number(source, row):>{gutter}} |", "gutter"), (f" {text}" if text else "", "code")
    if marked and (high > low or row == span.row):
        yield (" " * gutter + " | ", "gutter"), (" " * start + "^" * max(size, 1), "caret")


def shown_line(source: SourceText, row: int) -> str:
    """A row as its author wrote it: in notebooks, lines like ``!cmd`` are masked."""
    line = source.line(row)
    if source.cell_of(row) is None:
        return line
    try:
        return unmask_cell(line)
    except EditRefused:
        return line


def _columns(source: SourceText, line: str, span: Span, row: int) -> tuple[int, int]:
    """0-based columns to underline in a row of the span, without indentation and blanks at the end."""
    low = source.shown_column(row, span.column) - 1 if row == span.row else len(line) - len(line.lstrip())
    high = source.shown_column(row, span.end_column) - 1 if row == span.end_row else len(line.rstrip())
    low = min(max(low, 0), len(line))
    return low, min(max(high, low), len(line))


def _cut(line: str, low: int, high: int) -> tuple[str, int, int]:
    """(a row as shown, cells before the underline, cells of the underline), at most about MAX_WIDTH cells wide."""
    first = 0
    if len(line) > MAX_WIDTH and low > MAX_WIDTH // 2:
        first = min(low - MAX_WIDTH // 3, max(low - 10, len(line) - MAX_WIDTH))
    out, used = ("...", 3) if first else ("", 0)
    start = size = None
    at = first
    while at < len(line) and (at <= low or used < max(MAX_WIDTH, (start or 0) + MAX_WIDTH // 3)):
        start = used if at == low else start
        size = used if at == high else size
        shown = " " * (TAB - used % TAB) if line[at] == "\t" else printable_char(line[at])
        out, used, at = out + shown, used + width(shown), at + 1
    start = used if start is None else start
    end = used if size is None else size
    return out.rstrip() + (" ..." if at < len(line) else ""), start, end - start
