"""How a service is told where something stands: paths from the repository's root, rows of the file as it is stored."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from ..model import Span
from . import EditsOf, SourceOf
from .printable import printable


@dataclass(frozen=True, slots=True)
class ReportPlaces:
    """Where findings stand. ``prefix`` leads from the repository's root to the project's: empty, or ending in ``/``."""

    source_of: SourceOf
    edits_of: EditsOf = lambda fix: ()
    prefix: str = ""

    def locate(self, path: str, row: int, column: int = 1) -> tuple[int | None, int, int]:
        """What a reader sees of a place in a document: notebook cell (None in other files), row in it, column."""
        source = self.source_of(path)
        cell = source.cell_of(row) if source is not None else None
        if source is None or cell is None:
            return None, row, column
        return cell[0], cell[1], source.shown_column(row, column)

    def file_row(self, path: str, row: int) -> int | None:
        """The row of the file in which a row of a document stands."""
        source = self.source_of(path)
        return row if source is None else source.file_row(row)

    def path(self, path: str) -> str:
        """A path as text that any encoding of Unicode holds: bytes that are no UTF-8 become ``\\xff``."""
        return _bytes(self.prefix + path).decode("utf-8", "backslashreplace")

    def uri(self, path: str) -> str:
        """A path as a relative URI reference: its bytes, percent-encoded where they are no plain ASCII."""
        return quote(_bytes(self.prefix + path), safe="/")

    def rows(self, path: str, span: Span) -> tuple[int, int] | None:
        """The first and the last row of the file in which a span stands; None when no row of it does."""
        first = self.file_row(path, span.row)
        # A span that ends where a row begins holds nothing of that row.
        last = self.file_row(path, max(span.row, span.end_row - 1 if span.end_column == 1 else span.end_row))
        return None if first is None else (max(first, 1), max(first, last or first, 1))

    def in_cell(self, path: str, span: Span) -> str:
        """``cell 3, row 2`` for a place in a notebook, empty for any other."""
        cell, row, _ = self.locate(path, span.row, span.column)
        return "" if cell is None else f"cell {cell}, row {row}"

    def shown(self, path: str, span: Span) -> str:
        """``path:row``, or ``path:cell 3:row``, on one line, for people."""
        return self.at(path, span.row)

    def at(self, path: str, row: int, column: int | None = None) -> str:
        cell, row, shown = self.locate(path, row, column or 1)
        parts = [f"{self.prefix}{path}", *([f"cell {cell}"] if cell is not None else []), row]
        return printable(":".join(map(str, parts if column is None else [*parts, shown])))

    def start(self, path: str, span: Span) -> str:
        """``path:row:column`` of where a span begins."""
        return self.at(path, span.row, span.column)


def _bytes(path: str) -> bytes:
    try:
        return path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return path.encode("utf-8", "surrogatepass")
