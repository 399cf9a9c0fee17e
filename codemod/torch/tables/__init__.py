"""What torch does, as data: operations, layers, library objects, autocast policies, kernels."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def table_rows(table: str) -> list[tuple[list[str], list[str]]]:
    """The rows of a table in this folder: its columns, and the names in the last one, which may go on below.

    Columns stand between bars; a line without a bar belongs to the row above, one that begins with ``#`` is a comment.
    """
    found: list[tuple[list[str], list[str]]] = []
    for line in (FOLDER / table).read_text("utf-8").splitlines():
        *columns, names = line.partition("#")[0].split("|")
        if columns:
            found.append(([column.strip() for column in columns], []))
        if names.strip():
            found[-1][1].extend(names.split())
    return found
