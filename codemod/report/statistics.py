"""How often each rule speaks, as a table for people (``--statistics``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ..model import Applicability
from ..outcome import Report
from .frame import OutputLine
from .printable import printable
from .tally import counted, most_trusted, silenced_counts, tally
from .text import View, trouble_lines

LEVELS = (*(level.value for level in Applicability), "none")


def show_statistics(report: Report, view: View) -> Iterator[OutputLine]:
    """A line per rule that found something, most findings first: number, code, name, files, and how far its fixes go.

    After ``migrate`` a last column counts what is still found afterwards.
    """
    names = {finding.code: finding.name for finding in (*report.findings, *report.remaining)}
    found = Counter(finding.code for finding in report.findings)
    left = Counter(finding.code for finding in report.remaining)
    width = max((len(name) for name in names.values()), default=0)
    for code in sorted(names, key=lambda each: (-found[each], each)):
        files = len({finding.path for finding in report.findings if finding.code == code})
        tail = f"  {left[code]:>5} left" if report.changes else ""
        yield (
            (f"{found[code]:>6}  ", "place"),
            (printable(code), "rule"),
            (printable(f"  {names[code]:<{width}}  in {counted(files, 'file'):<9}"), "text"),
            (f"  {_levels(report, code)}", "note"),
            (tail, "note"),
        )
    yield from trouble_lines(report, view)
    numbers = tally(report)
    silent = f", {silenced_counts(report)}" if report.silenced else ""
    yield ((f"{counted(numbers.findings, 'finding')} in {counted(numbers.files, 'file')}{silent}", "text"),)


def _levels(report: Report, code: str) -> str:
    """``3 safe, 1 none``: the most trusted fix of each finding of a rule."""
    best = Counter(most_trusted(finding) for finding in report.findings if finding.code == code)
    return ", ".join(f"{best[level]} {'without fix' if level == 'none' else level}" for level in LEVELS if best[level])
