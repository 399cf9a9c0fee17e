"""What ``migrate`` did, for people: per file the fixes that were carried out, then what is left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from ..model import Finding, Fix
from ..outcome import FileChange, Report
from ..source.documents import Document, Unreadable, kind_of
from . import SourceOf, SourceText
from .diff import line_counts
from .frame import OutputLine
from .move_table import move_lines
from .places import ReportPlaces
from .printable import printable
from .tally import counted, in_order, settled
from .text import Level, View, finding_lines, left_out, trouble_lines


def show_applied(report: Report, view: View, *, dry_run: bool = False, root: str = "") -> Iterator[OutputLine]:
    """The lines of ``migrate``: each changed file with its fixes and their messages, the findings left, a summary.

    Fix messages state what changes in behavior, findings under which condition that is so: both are shown in full, once
    per file with all their places.
    ``view.source_of`` gives the documents before the changes; findings that are left are shown in the changed text.
    ``root`` is what to write after ``precfix undo``, empty for the current folder.
    """
    fixes = settled(report)
    for change in sorted(report.changes, key=lambda each: each.path):
        yield from _file(change, fixes, view)
    if report.changes and report.remaining and view.level > Level.QUIET:
        yield (("Still found after these changes:", "place"),)
        yield ()
    after = replace(view, source_of=_changed_sources(report, view.source_of))
    for finding in in_order(report.remaining):
        yield from finding_lines(finding, after, left=True)
    yield from trouble_lines(report, view)
    if view.level > Level.QUIET:
        yield _summary(report, dry_run, root)
        rows = ReportPlaces(view.source_of).at
        yield from move_lines(report.moves, report.target.regime, rows, planned=dry_run)


def _changed_sources(report: Report, before: SourceOf) -> SourceOf:
    changed = {change.path: change.after for change in report.changes}

    @cache
    def source_of(path: str) -> SourceText | None:
        kind = kind_of(path)
        if path not in changed or kind is None:
            return before(path)
        try:
            return Document(path, kind, changed[path])
        except Unreadable:
            return None

    return source_of


def _file(change: FileChange, fixes: Sequence[tuple[Finding, Fix]], view: View) -> Iterator[OutputLine]:
    added, removed = line_counts(change)
    counts = ((" +" + str(added), "safe"), (" -" + str(removed), "bad"))
    yield (printable(change.path), "place"), *counts
    if view.level == Level.QUIET:
        return
    for (code, name, fix_name, level, message), findings in _by_fix(change.path, fixes).items():
        head = ((f"  {printable(code)} {printable(name)} ", "rule"), (f"[{level}]", level))
        yield *head, (f" {printable(fix_name)}: {printable(message)}", "text")
        for message, group in _by_message(findings).items():
            yield ((f"    at {', '.join(_places(change.path, group, view))}: {printable(message)}", "note"),)
    yield ()


def _by_fix(path: str, fixes: Sequence[tuple[Finding, Fix]]) -> dict[tuple[str, str, str, str, str], list[Finding]]:
    groups: dict[tuple[str, str, str, str, str], list[Finding]] = {}
    for finding, fix in fixes:
        if _touches(path, finding, fix):
            key = (finding.code, finding.name, fix.name, fix.applicability.value, fix.message)
            groups.setdefault(key, []).append(finding)
    return dict(sorted(groups.items()))


def _by_message(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    """What was found, which says under which condition it matters: each sentence once, with its places."""
    groups: dict[str, list[Finding]] = {}
    for finding in in_order(findings):
        groups.setdefault(finding.message, []).append(finding)
    return groups


def _touches(path: str, finding: Finding, fix: Fix) -> bool:
    return any(edit.path == path for edit in fix.edits) or (not fix.edits and finding.path == path)


def _places(path: str, findings: list[Finding], view: View) -> list[str]:
    places = ReportPlaces(view.source_of)
    here = sorted({each.span.row for each in findings if each.path == path})
    rows = [places.at(path, row).removeprefix(f"{printable(path)}:") for row in here]
    others = sorted({(each.path, each.span.row) for each in findings if each.path != path})
    elsewhere = [places.at(*each) for each in others]
    is_notebook = any(row.startswith("cell ") for row in rows)
    return [*([f"{'' if is_notebook else 'row '}{', '.join(rows)}"] if rows else []), *elsewhere]


def _summary(report: Report, dry_run: bool, root: str) -> OutputLine:
    left = len(report.remaining)
    if not report.applied and not left:
        files = counted(report.files_seen, "file")
        runs = counted(sum(run.is_left for run in report.moves), "run")
        if not runs.startswith("0 "):
            return ((f"No automatic edit in {files}{left_out(report)}; nothing changed; {runs} left.", "bad"),)
        return ((f"No precision mistakes found in {files}{left_out(report)}; nothing changed.", "good"),)
    done = _done(len(report.applied), report, dry_run)
    undo = "" if dry_run or not report.changes else f" Take it back with: precfix undo {printable(root)}".rstrip()
    return ((done + undo, "bad" if left else "good"),)


def _done(fixes: int, report: Report, dry_run: bool) -> str:
    files, left = counted(len(report.changes), "file"), counted(len(report.remaining), "finding")
    return f"{'Would apply' if dry_run else 'Applied'} {counted(fixes, 'fix')} in {files}; {left} left."


def show_fix_list(report: Report, view: View, *, dry_run: bool = False) -> Iterator[OutputLine]:
    """Every fix on a line of its own (``migrate --show-fixes``), for reviews and for grep.

    ``train.py:12:5 PF101 drop [safe] + conf.yaml``: place in the file as it was read, rule, fix, other files.
    """
    fixes = sorted(settled(report), key=lambda pair: (pair[0].path, pair[0].span, pair[0].code))
    for finding, fix in fixes:
        at = ReportPlaces(view.source_of).start(finding.path, finding.span)
        others = sorted({edit.path for edit in fix.edits} - {finding.path})
        also = printable("".join(f" + {path}" for path in others))
        level = fix.applicability.value
        yield (
            (at, "place"),
            (printable(f" {finding.code}"), "rule"),
            (printable(f" {fix.name} "), "text"),
            (f"[{level}]", level),
            (also, "note"),
        )
    yield from trouble_lines(report, view)
    yield ((_done(len(fixes), report, dry_run), "text"),)
