"""The frames of a traceback in the files of a project: by the end of their path, and by the source line they show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from ..source.documents import Document
from ..source.project import Project
from .evidence import owner_of
from .tracebacks import StackFrame

MAX_ROWS = 200_000


@dataclass(frozen=True, slots=True)
class Located:
    """Where a frame is in the project."""

    path: str
    row: int
    moved: bool = False
    """Whether the line stands elsewhere in the file than the traceback says."""


def locate(project: Project, frames: Iterable[StackFrame]) -> list[Located]:
    """Where the frames are, innermost first; those of other code are left out."""
    by_name: dict[str, list[str]] = {}
    for path in project.paths:
        by_name.setdefault(path.rpartition("/")[2], []).append(path)
    found = []
    for frame in reversed([*frames]):
        place = _located(project, frame, by_name)
        if place is not None and place not in found:
            found.append(place)
    return found


def _located(project: Project, frame: StackFrame, by_name: dict[str, list[str]]) -> Located | None:
    if frame.path.startswith("<"):
        return _in_notebooks(project, frame)
    name = frame.posix.rpartition("/")[2]
    scored = [(_common(frame.posix, path), path) for path in by_name.get(name, [])]
    least = 1 if owner_of(frame) == "user" else 3
    scored = [(score, path) for score, path in scored if score >= least]
    if not scored:
        return None
    best = max(score for score, _ in scored)
    places = [place for score, path in scored if score == best and (place := _row(project, frame, path)) is not None]
    exact = [place for place in places if not place.moved] or places
    return exact[0] if len(exact) == 1 else None


def _common(one: str, other: str) -> int:
    """How many names at the end of two paths are the same."""
    pairs = zip(reversed(one.split("/")), reversed(other.split("/")), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _row(project: Project, frame: StackFrame, path: str) -> Located | None:
    document = project.document(path)
    if document is None or document.notebook is not None:
        return None
    if not frame.code or _is_line(document, frame.row, frame.code):
        return Located(path, frame.row) if frame.row <= document.rows else None
    rows = [*_rows_of(document, frame.code)]
    if not rows:
        return None  # another file of that name, or the line is gone: any other line would mislead
    return Located(path, min(rows, key=lambda row: abs(row - frame.row)), moved=True)


def _in_notebooks(project: Project, frame: StackFrame) -> Located | None:
    """A cell is known by its source line alone: its number is that of its execution."""
    if not frame.code:
        return None
    notebooks = [document for path in project.paths if path.endswith(".ipynb") and (document := project.document(path))]
    places = [Located(document.path, row) for document in notebooks for row in _rows_of(document, frame.code)]
    return places[0] if len(places) == 1 else None


def _is_line(document: Document, row: int, code: str) -> bool:
    return 1 <= row <= document.rows and document.line(row).strip()[:300] == code


def _rows_of(document: Document, code: str) -> Iterator[int]:
    last = min(document.rows, MAX_ROWS)
    return (row for row in range(1, last + 1) if _is_line(document, row, code))
