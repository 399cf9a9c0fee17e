"""What a project says of a message: the findings that explain it, nearest to the traceback first, and its runs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..engine import Options, choose, documents_with
from ..flow.encounters import all_meetings
from ..model import EditRefused, Finding, Fix
from ..outcome import RunReport
from ..report.matching import changed_blocks
from ..source.project import Project
from .locating import Located

NEAR = 3
"""How many findings are shown for one message."""
OBSERVED = "PF901"
"""The rule about what a rehearsal saw; it explains any message at its place."""


@dataclass(frozen=True, slots=True)
class Explaining:
    """A finding that explains a message, and the fix that ends it."""

    finding: Finding
    fix: Fix | None
    rows: tuple[tuple[str, int], ...]
    """The lines that the fix changes."""
    nearness: int
    """0: on a line of the traceback; 1: in a function or file of it; 2: elsewhere in the project."""


@dataclass(frozen=True, slots=True)
class Met:
    """What the dtype flow knows of a line of the traceback."""

    path: str
    row: int
    says: str


def explaining(project: Project, findings: Iterable[Finding], located: Sequence[Located]) -> list[Explaining]:
    """The findings, those nearest to the innermost frame first."""
    ranked = sorted((_ranked(project, finding, located) for finding in findings), key=lambda pair: pair[0])
    return [item for _, item in ranked]


def _ranked(
    project: Project, finding: Finding, located: Sequence[Located]
) -> tuple[tuple[int, int, int, str, int], Explaining]:
    fix = choose(finding, Options(unsafe_fixes=True))
    rows = tuple(_rows_of(project, fix)) if fix is not None else ()
    touched = {(finding.path, row) for row in range(finding.span.row, finding.span.end_row + 1)}
    touched |= {(place.path, place.span.row) for place in finding.evidence} | {*rows}
    depth = next((at for at, place in enumerate(located) if (place.path, place.row) in touched), None)
    files = [place.path for place in located]
    paths = {path for path, _ in touched}
    in_file = next((at for at, path in enumerate(files) if path in paths), None)
    nearness = 0 if depth is not None else 1 if in_file is not None else 2
    away = min((abs(row - place.row) for place in located for path, row in touched if path == place.path), default=0)
    order = (nearness, depth or in_file or 0, away, finding.path, finding.span.row)
    return order, Explaining(finding, fix, rows, nearness)


def _rows_of(project: Project, fix: Fix) -> Iterator[tuple[str, int]]:
    """The lines that a fix changes, as they are numbered now."""
    try:
        pairs = documents_with(project, [fix])
    except EditRefused:
        return
    for before, after in pairs:
        for start, end, _, _ in changed_blocks(before.text.split("\n"), after.text.split("\n")):
            yield from ((before.path, row) for row in range(start + 1, max(end, start + 1) + 1))


def met_at(project: Project, located: Sequence[Located]) -> list[Met]:
    """Where the dtype flow saw operands of two dtypes meet on the way of the traceback."""
    asked = {(place.path, place.row) for place in located}
    found = []
    for meeting in all_meetings(project) if asked else ():
        path, node = meeting.module.document.path, meeting.node
        rows = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        if any((path, row) in asked for row in rows):
            source = meeting.odd.atom.source
            made = f"; it comes from {source.path}:{getattr(source.node, 'lineno', 0)}" if source is not None else ""
            odd = ast.unparse(meeting.odd.node)[:80]
            found.append(Met(path, node.lineno, f"`{odd}` has another dtype than what it meets{made}"))
    return found[:NEAR]


def precision_of_runs(runs: Iterable[RunReport]) -> list[str]:
    """One line for each run that says what it computes in."""
    return [f"{run.path}:{run.row} {run.title}: {run.regime}" for run in runs][:NEAR]
