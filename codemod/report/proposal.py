"""One finding, the fix proposed for it and what that would change, for somebody who is asked about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..model import Applicability, Finding, Fix
from ..outcome import FileChange
from ..source.documents import Document
from . import SourceOf
from .diff import unified_diff
from .frame import OutputLine, frame, shown_line
from .places import ReportPlaces
from .printable import printable
from .text import heading, reason_lines

MAX_LINES = 60
"""Lines of a diff that are shown at first."""
MAX_LINE = 600
"""Characters of a line of a diff that are shown at first."""
TAB = 4
_STYLE = {"+": "safe", "-": "bad", "@": "gutter"}


@dataclass(frozen=True, slots=True)
class DiffView:
    """The lines of a diff, and how many of them were left out or cut."""

    lines: tuple[OutputLine, ...]
    left_out: int


def heading_lines(finding: Finding, position: str, source_of: SourceOf) -> Iterator[OutputLine]:
    """Where the finding is, what it says, its code, and one line per piece of evidence."""
    yield (f"[{position}] ", "note"), *heading(finding, source_of)
    yield from reason_lines(finding, source_of)


def fix_line(finding: Finding, fix: Fix) -> OutputLine:
    """``Fix [safe] drop: what it does``; with its number where there is a choice."""
    number = f"Fix {finding.fixes.index(fix) + 1} " if len(finding.fixes) > 1 else "Fix "
    return (number, "place"), *_named(fix)


def other_lines(finding: Finding, fix: Fix) -> Iterator[OutputLine]:
    """The other fixes of a finding with their numbers; what cannot be written has none."""
    if len(finding.fixes) > 1:
        yield (("Other fixes:", "place"),)
    for number, other in enumerate(finding.fixes, start=1):
        if other != fix:
            sign = "-" if other.applicability is Applicability.DISPLAY_ONLY else str(number)
            yield (f"  {sign} ", "note"), *_named(other)


def _named(fix: Fix) -> OutputLine:
    level = fix.applicability.value
    warning = {
        Applicability.SAFE: "",
        Applicability.UNSAFE: " (numerics, memory or speed may change)",
        Applicability.DISPLAY_ONLY: " (shown only, never written)",
    }[fix.applicability]
    text = f" {printable(fix.name)}: {printable(fix.message)}"
    return (f"[{level}]", level), (text, "text"), *(((warning, level),) if warning else ())


def evidence_lines(finding: Finding, source_of: SourceOf) -> Iterator[OutputLine]:
    """The places that led to the finding, each with its code."""
    if not finding.evidence:
        yield (("There is no evidence besides the place itself.", "text"),)
    for number, each in enumerate(finding.evidence, start=1):
        source = source_of(each.path)
        where = ReportPlaces(source_of).start(each.path, each.span)
        yield (f"Evidence {number}: ", "note"), (where, "place"), (f" {printable(each.message)}", "text")
        if source is not None:
            yield from frame(source, each.span)


def diff_view(pairs: Sequence[tuple[Document, Document]], *, whole: bool = False) -> DiffView:
    """What changes from each document to the other, as their authors read them: decoded, notebooks by cell.

    Unless ``whole``, long diffs and long lines are cut.
    """
    lines = [line for before, after in pairs for line in _diff(before, after)]
    shown = lines if whole else lines[:MAX_LINES]
    out, cut = [], len(lines) - len(shown)
    for text in shown:
        style = _STYLE.get(text[:1], "place" if text[:1] == "=" else "code")
        clear = printable(text.expandtabs(TAB))
        if len(clear) > MAX_LINE and not whole:
            clear, cut = clear[:MAX_LINE] + " ...", cut + 1
        out.append(((clear, style),))
    return DiffView(tuple(out), cut)


def _diff(before: Document, after: Document) -> Iterator[str]:
    """A heading with ``=`` for each file or cell that changes, and its hunks."""
    old, new = _parts(before), _parts(after)
    for name in [*old, *(name for name in new if name not in old)]:
        was, is_now = (part.get(name, "").encode("utf-8", "surrogatepass") for part in (old, new))
        pair = FileChange("x", was, is_now)
        hunks = unified_diff([pair]).decode("utf-8", "surrogatepass").split("\n")[3:-1]
        if hunks:
            yield f"=== {name}"
            yield from hunks


def _parts(document: Document) -> dict[str, str]:
    """The text of a document with ``\\n`` after each row, by what to call it; a notebook has a part for each cell."""
    parts: dict[str, list[str]] = {}
    for row in range(1, document.rows + 1):
        cell = document.cell_of(row)
        if cell is not None:
            parts.setdefault(f"{document.path} cell {cell[0]}", []).append(shown_line(document, row))
        elif document.notebook is None:
            parts.setdefault(document.path, []).append(document.line(row))
    missing = "\n" if document.notebook is not None else ""  # the last row of a cell is stored without its end
    return {name: "\n".join(rows) + (missing if rows[-1] else "") for name, rows in parts.items()}
