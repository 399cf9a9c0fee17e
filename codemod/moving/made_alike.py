"""Runs of one program that differ today and would be the same run after a move: one of them was there to compare."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..half.weighed_ledger import run_of
from ..model import Place, Span
from ..outcome import RunReport
from ..source.project import Project
from ..trainers.reading.program_files import file_named
from .pairs import RunPair

ALIKE = "would be the same run as {}"


def made_alike(project: Project, after: Project, pairs: Sequence[RunPair]) -> Iterator[tuple[RunReport, Place]]:
    """The runs of which another one becomes the double, each with the place of that one."""
    said = [(pair, _said(project, pair.before), _said(after, pair.after)) for pair in pairs if pair.after is not None]
    for pair, before, now in said:
        for other, its_before, its_now in said if now else ():
            if now == its_now and before != its_before:
                run = other.before
                told = ALIKE.format(f"{run.path}:{run.row} {run.title}")
                yield pair.before, Place(pair.before.path, Span(pair.before.row, 1, pair.before.row, 1), told)
                break


def _said(project: Project, run: RunReport | None) -> object:
    """The program, its words with what the files say that they name, and its settings; None without a launch line."""
    read = run_of(project, run) if run is not None else None
    if run is None or read is None or read.command is None or not read.modules:
        return None
    words = tuple(_content(project, run.path, word) for word in read.command.words)
    told = (entry.declaration for entry in run.entries)
    return read.modules[0], words, frozenset((item.key, item.value) for item in told)


def _content(project: Project, near: str, word: str) -> str:
    path = file_named(project, near, word.rpartition("=")[2]) if "." in word else None
    document = project.document(path) if path is not None and not path.endswith(".py") else None
    return document.text if document is not None else word
