"""Places in notebooks that a message names: ``a.ipynb:cell 2:13``, where code has only the row of all cells joined."""

from __future__ import annotations

from itertools import takewhile

from .project import Project

ENDING = ".ipynb"


def in_cells(project: Project, text: str) -> str:
    """A message with the cell and the row in it, in place of rows that no reader of the notebook sees."""
    if f"{ENDING}:" not in text:
        return text
    named = (path for path in project.paths if path.endswith(ENDING) and f"{path}:" in text)
    for path in sorted(named, key=len, reverse=True):
        first, *others = text.split(f"{path}:")
        text = first + "".join(f"{path}:{_in_cell(project, path, other)}" for other in others)
    return text


def _in_cell(project: Project, path: str, text: str) -> str:
    """What follows a path and a colon: ``52) may clip`` -> ``cell 2:13) may clip``."""
    row = "".join(takewhile(str.isdecimal, text))
    document = project.document(path) if row else None
    cell = document.cell_of(int(row)) if document is not None else None
    return text if cell is None else f"cell {cell[0]}:{cell[1]}{text[len(row) :]}"
