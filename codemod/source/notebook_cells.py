"""A Jupyter notebook as one virtual Python module, and the way back into the same JSON text.

The module joins the code cells with lines holding a sentinel expression (``__precfix_cell_3__`` starts cell 3), so that
rewriting cannot lose the borders. Lines that only IPython understands are masked as ``pass  #precfix-magic#...``.
Going back, only changed source lines are written; every other character of the JSON text stays.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from json import dumps

from ..model import EditRefused
from .magics import CONTINUED, MARKER, MASK, mask_cell, shell_start, unmask_cell
from .notebook_json import Cell, NotebookError, read_cells
from .parsing import Unparsable, parse_python

__all__ = ["Magic", "Notebook", "NotebookError", "UnparsedCell"]

_SENTINEL = "__precfix_cell_"
_SENTINEL_LINE = re.compile(r"__precfix_cell_(\d+)__[ \t]*(?:\r\n|\n|\r|$)")
_NEWLINE = re.compile("\r\n|\n|\r")
_UNICODE_ESCAPE = re.compile(r"\\u(?!00[01])")  # control characters are escaped by every writer


@dataclass(frozen=True, slots=True)
class Magic:
    """A line (or continued line) of shell in a notebook; ``row`` and ``column`` are those of the virtual module."""

    row: int
    column: int
    text: str


@dataclass(frozen=True, slots=True)
class UnparsedCell:
    """A code cell left out of the virtual module because it is no Python; ``row`` is relative to the cell."""

    cell: int
    row: int
    reason: str


@dataclass(frozen=True, slots=True)
class _Part:
    """A cell that is part of the virtual module: its masked text and its first row there."""

    cell: Cell
    masked: str
    first_row: int


class Notebook:
    """The text of a notebook file and the virtual module made from it."""

    def __init__(self, json_text: str, parts: tuple[_Part, ...], unparsed: tuple[UnparsedCell, ...]) -> None:
        self.json_text = json_text
        self.unparsed_cells = unparsed
        self._parts = parts
        self.virtual = "\n".join(
            part.masked if index == 0 else f"{_SENTINEL}{part.cell.number}__\n{part.masked}"
            for index, part in enumerate(parts)
        )

    @classmethod
    def parse(cls, json_text: str) -> Notebook:
        """Read the JSON text of a notebook; raises `NotebookError` when it is none, or of an old format."""
        parts: list[_Part] = []
        unparsed: list[UnparsedCell] = []
        row = 1
        for cell in read_cells(json_text):
            masked = _masked(cell)
            if isinstance(masked, UnparsedCell):
                unparsed.append(masked)
            elif masked is not None:
                row += 1 if parts else 0  # the sentinel
                parts.append(_Part(cell, masked, row))
                row += len(_NEWLINE.findall(masked)) + 1
        return cls(json_text, tuple(parts), tuple(unparsed))

    def cell_of(self, row: int) -> tuple[int, int] | None:
        """(cell number, row in the cell) of a row of the virtual module; None for a sentinel."""
        index = bisect_right(self._first_rows, row) - 1
        if index < 0:
            return None
        part = self._parts[index]
        inside = row - part.first_row + 1
        return (part.cell.number, inside) if inside <= len(_NEWLINE.findall(part.masked)) + 1 else None

    def json_row_of(self, row: int) -> int | None:
        """The row of the JSON text in which a row of the virtual module is written; None for a sentinel."""
        index = bisect_right(self._first_rows, row) - 1
        if self.cell_of(row) is None:
            return None
        part = self._parts[index]
        return bisect_right(self._json_ends, part.cell.offset_of(row - part.first_row + 1) - 1) + 1

    def shown_column(self, row: int, column: int) -> int:
        """``column`` less what masking has put in front of a line."""
        line = self._lines[row - 1] if 0 < row <= len(self._lines) else ""
        bare = line.lstrip(" \t\f")
        indent = len(line) - len(bare)
        if bare.startswith(MASK):
            return max(column - len(MASK), indent + 1)
        return max(column - indent - len(CONTINUED), 1) if bare.startswith(CONTINUED) else column

    @cached_property
    def _first_rows(self) -> list[int]:
        return [part.first_row for part in self._parts]

    @cached_property
    def _json_ends(self) -> list[int]:
        return [match.start() for match in _NEWLINE.finditer(self.json_text)]

    @cached_property
    def _lines(self) -> list[str]:
        return _NEWLINE.split(self.virtual)

    @cached_property
    def shell_lines(self) -> Sequence[Magic]:
        """``!command`` and ``%env`` lines and their continuations, in order."""
        found: list[Magic] = []
        in_shell = False
        for number, line in enumerate(self._lines, 1):
            bare = line.lstrip(" \t\f")
            start: int | None = 0 if in_shell else None
            if bare.startswith(MASK):
                start = shell_start(bare[len(MASK) :])
            elif not bare.startswith(CONTINUED):
                start = None
            in_shell = start is not None
            if start is not None:
                text = bare[len(MASK) + start :]
                found.append(Magic(number, len(line) - len(text) + 1, text))
        return tuple(found)

    def splice(self, virtual: str) -> str:
        """The JSON text with the cells of a changed virtual module; raises `EditRefused`."""
        pieces: list[str] = []
        done = 0
        for part, masked in zip(self._parts, self._cut(virtual), strict=True):
            if masked == part.masked:
                continue
            old, new = part.cell.text, unmask_cell(masked)
            if masked.count(MARKER) != part.masked.count(MARKER) or _SENTINEL in masked:
                raise EditRefused(f"cell {part.cell.number}: an IPython line would be lost")
            if not _is_python(masked) or mask_cell(new) != masked:
                raise EditRefused(f"cell {part.cell.number} would no longer be valid Python")
            if old != new:
                pieces += (self.json_text[done : part.cell.start], self._respelled(part.cell, new))
                done = part.cell.end
        return "".join((*pieces, self.json_text[done:]))

    def _cut(self, virtual: str) -> list[str]:
        """The masked cells of a virtual module, as many as there are parts."""
        cells: list[str] = []
        start = 0
        numbers = [part.cell.number for part in self._parts[1:]]
        for match in _SENTINEL_LINE.finditer(virtual):
            at_line_start = match.start() == 0 or virtual[match.start() - 1] in "\r\n"
            if not at_line_start or len(cells) >= len(numbers) or int(match[1]) != numbers[len(cells)]:
                raise EditRefused("a border between notebook cells was moved or repeated")
            cells.append(_without_last_newline(virtual[start : match.start()]))
            start = match.end()
        if len(cells) != len(numbers):
            raise EditRefused("a border between notebook cells was lost")
        if virtual and not self._parts:
            raise EditRefused("the notebook has no code cell to write to")
        return [*cells, virtual[start:]] if self._parts else []

    def _respelled(self, cell: Cell, new: str) -> str:
        """The JSON spelling of a cell's source: lines that did not change keep theirs, quotes and commas included."""
        new_lines = _lf_lines(new)
        if not new_lines:
            return "[]" if cell.is_list else '""'
        import difflib

        kept: list[int | None] = [None] * len(new_lines)
        matcher = difflib.SequenceMatcher(None, [line.text for line in cell.lines], new_lines, autojunk=False)
        for block in matcher.get_matching_blocks():
            for step in range(block.size):
                kept[block.b + step] = block.a + step
        out = [cell.opening]
        for index, line in enumerate(new_lines):
            source = kept[index]
            out.append(self._escaped(line) if source is None else cell.lines[source].raw)
            if index + 1 < len(new_lines):
                out.append(_joint(cell, source, kept[index + 1]))
        out.append(cell.closing)
        return "".join(out)

    def _escaped(self, line: str) -> str:
        return dumps(line, ensure_ascii=self._escapes_unicode)[1:-1]

    @cached_property
    def _escapes_unicode(self) -> bool:
        return self.json_text.isascii() and _UNICODE_ESCAPE.search(self.json_text) is not None


def _joint(cell: Cell, line: int | None, following: int | None) -> str:
    """What stands between two lines, given by their old numbers (None: a new line): what stood there before."""
    if line is not None and line + 1 < len(cell.lines):
        return cell.lines[line].joint
    return cell.lines[following - 1].joint if following else cell.new_joint


def _masked(cell: Cell) -> str | UnparsedCell | None:
    """The masked text of a cell; None when it is empty or another language's."""
    if not cell.text.strip():
        return None
    if _SENTINEL in cell.text or MARKER in cell.text:
        return UnparsedCell(cell.number, 0, "holds a word that precfix reserves")
    masked = mask_cell(cell.text)
    if masked is None:
        return None
    try:
        parse_python(masked)
    except Unparsable as error:
        return UnparsedCell(cell.number, error.row, error.reason)
    return masked


def _is_python(masked: str) -> bool:
    try:
        parse_python(masked)
    except Unparsable:
        return False
    return True


def _lf_lines(text: str) -> list[str]:
    lines = text.split("\n")
    whole = [line + "\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _without_last_newline(text: str) -> str:
    for newline in ("\r\n", "\n", "\r"):
        if text.endswith(newline):
            return text[: -len(newline)]
    return text
