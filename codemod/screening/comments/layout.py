"""Comments and logical lines of a text, by row."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

_NEWLINE = re.compile("\r\n|\n|\r")
_REST = re.compile(r"[ \t\f]*(?:[\r\n]|\Z)")


@dataclass(frozen=True, slots=True, order=True)
class Comment:
    """One comment, ``text[start:end]`` with its mark and without the newline."""

    start: int
    end: int
    row: int
    end_row: int
    alone: bool
    """Whether nothing else stands on its rows."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What is comment in a text, and which rows belong together. Rows are 1-based."""

    comments: tuple[Comment, ...] = ()
    lines: tuple[tuple[int, int], ...] = ()
    """First and last row of each logical line that has more than one, in order."""
    headers: tuple[tuple[int, int], ...] = ()
    """Python: from the first decorator to the end of the header below it."""
    strings: tuple[tuple[int, int], ...] = ()
    """First and last row of what must not be interrupted: no row of it but the last can end with a comment."""
    masked: frozenset[int] = frozenset()
    """Notebooks: rows that only IPython understands."""
    starts: tuple[int, ...] = (0,)
    """The offset of each row."""
    following: tuple[int, ...] = ()
    """For each row (from 0, so for those below it) the next one with more than comments on it; 0: there is none."""
    complete: bool = True
    """False: the text could not be read to its end, so there may be more."""

    def line_of(self, row: int) -> tuple[int, int]:
        """First and last row of the logical line that holds ``row``."""
        return _within(self.lines, row) or (row, row)

    def below(self, comment: Comment) -> tuple[int, int] | None:
        """The rows that a comment on a line of its own is about: from itself to the end of the next logical line.

        Inside a logical line that is this line; None when nothing follows.
        """
        inside = _within(self.lines, comment.row)
        if inside is not None and inside[0] < comment.row:
            return inside
        row = self.following[comment.end_row] if comment.end_row < len(self.following) else 0
        if not row:
            return None
        header = _within(self.headers, row)
        first, last = header if header is not None and header[0] == row else self.line_of(row)
        return min(comment.row, first), last


def _within(ranges: tuple[tuple[int, int], ...], row: int) -> tuple[int, int] | None:
    """The range that holds ``row``; they are in order and do not overlap."""
    index = bisect_right(ranges, (row, 1 << 60)) - 1
    return ranges[index] if index >= 0 and ranges[index][0] <= row <= ranges[index][1] else None


@dataclass(slots=True)
class LayoutBuilder:
    """Collects what a reader finds in ``text``, by offset."""

    text: str
    complete: bool = True
    masked: set[int] = field(default_factory=set)
    _comments: dict[int, int] = field(default_factory=dict)
    _lines: list[tuple[int, int]] = field(default_factory=list)
    _headers: list[tuple[int, int]] = field(default_factory=list)
    _strings: list[tuple[int, int]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.starts = [0, *(match.end() for match in _NEWLINE.finditer(self.text))]

    def row(self, offset: int) -> int:
        """The 1-based row of an offset."""
        return bisect_right(self.starts, offset)

    def line_end(self, offset: int) -> int:
        """Where the row of ``offset`` ends, without its newline."""
        found = _NEWLINE.search(self.text, offset)
        return found.start() if found else len(self.text)

    def comment(self, start: int, end: int | None = None) -> int:
        """Note a comment; without ``end`` it goes to the end of its row. Returns its end."""
        end = self.line_end(start) if end is None else end
        self._comments[start] = end
        return end

    def joined(self, first: int, last: int) -> None:
        """Note that the rows ``first`` to ``last`` are one logical line."""
        if last > first:
            self._lines.append((first, last))

    def header(self, first: int, last: int) -> None:
        """Note a header with its decorators."""
        self._headers.append((first, last))

    def string(self, first: int, last: int) -> None:
        """Note that a text goes over the rows ``first`` to ``last``."""
        if last > first:
            self._strings.append((first, last))

    def layout(self) -> Layout:
        """What was collected."""
        comments = sorted(self._made(start, end) for start, end in self._comments.items())
        return Layout(
            tuple(comments),
            _merged(self._lines),
            _merged(self._headers),
            _merged(self._strings),
            frozenset(self.masked),
            tuple(self.starts),
            self._following(comments),
            self.complete,
        )

    def _made(self, start: int, end: int) -> Comment:
        row, end_row = self.row(start), self.row(max(start, end - 1))
        before = start
        while before > self.starts[row - 1] and self.text[before - 1] in " \t\f":
            before -= 1
        alone = before == self.starts[row - 1] and _REST.match(self.text, end) is not None
        return Comment(start, end, row, end_row, alone)

    def _following(self, comments: list[Comment]) -> tuple[int, ...]:
        empty = {row for each in comments if each.alone for row in range(each.row, each.end_row + 1)}
        ends = [*self.starts[1:], len(self.text)]
        following, below = [], 0
        for row in range(len(self.starts), 0, -1):
            if row not in empty and self.text[self.starts[row - 1] : ends[row - 1]].strip():
                below = row
            following.append(below)
        return tuple(following[::-1])


def _merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """The ranges in order; those that share a row become one."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)
