"""What a run found and would change, written for people and for programs: text, unified diff, JSON.

Reports only format: they never read files or decide. Source lines and concrete edits come in through the small
callables named here, so a report can be tested without a project.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from ..model import Fix, Span


@dataclass(frozen=True, slots=True)
class TextEdit:
    """Replace the characters under ``span`` by ``content``; rows are those of the document, also in notebooks."""

    path: str
    span: Span
    content: str


class SourceText(Protocol):
    """The part of a document that reports need."""

    def line(self, row: int) -> str:
        """The text of a 1-based row."""
        ...

    def cell_of(self, row: int) -> tuple[int, int] | None:
        """In a notebook: the 1-based cell and the row inside it; None in any other file."""
        ...

    def file_row(self, row: int) -> int | None:
        """The row of the file itself: in notebooks that of the JSON text, None if no row has it."""
        ...

    def shown_column(self, row: int, column: int) -> int:
        """The column a reader sees: differs from ``column`` only on masked notebook lines (``!cmd``)."""
        ...


SourceOf: TypeAlias = Callable[[str], SourceText | None]
"""The document at a path, or None when it cannot be shown."""
EditsOf: TypeAlias = Callable[[Fix], tuple[TextEdit, ...]]
"""The characters a fix would change if it were the only one; raises EditRefused when it cannot be carried out."""
