"""Findings with the diff that the best fix of each would make (``check --show-fixes``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..engine import Options, choose, documents_with
from ..model import EditRefused, Finding
from ..outcome import Report
from ..source.project import Project
from .frame import OutputLine
from .printable import printable
from .proposal import diff_view
from .tally import in_order
from .text import Level, View, closing_lines, finding_lines


def show_findings_with_fixes(
    report: Report, view: View, project: Project, chosen: Mapping[str, str]
) -> Iterator[OutputLine]:
    """The lines of ``check``, with a diff after each finding that has a fix which may be written at all.

    ``chosen`` is the name of the alternative to show, by rule.
    """
    options = Options(unsafe_fixes=True, chosen=chosen)
    for finding in in_order(report.findings):
        lines = [*finding_lines(finding, view)]
        yield from lines if view.level == Level.QUIET else lines[:-1]
        yield from _diff(finding, project, options)
        yield ()
    yield from closing_lines(report, view)


def _diff(finding: Finding, project: Project, options: Options) -> Iterator[OutputLine]:
    fix = choose(finding, options)
    if fix is None or not fix.edits:
        return
    try:
        pairs = documents_with(project, [fix])
    except EditRefused as refusal:
        yield ((printable(f"  = the fix {fix.name} cannot be carried out: {refusal}"), "note"),)
        return
    yield from diff_view(pairs, whole=True).lines
