"""The report as annotations of a pull request: workflow commands that a GitHub Actions runner reads from the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..model import Applicability, Finding
from ..outcome import Report, Skipped
from .outcomes import FindingState, Outcome, outcomes, reasons
from .places import ReportPlaces
from .printable import printable, printable_char
from .tally import counted

SHOWN = 10
"""How many annotations of each level GitHub shows for one step."""
_TRUST = {level: rank for rank, level in enumerate(Applicability)}


def to_github(report: Report, places: ReportPlaces) -> str:
    """Workflow commands, one per line, then a summary in plain text; UTF-8 holds every character.

    ``check`` writes a ``warning`` for each finding. ``migrate`` writes them for what is left, and a ``notice`` for each
    repaired finding. Rules that failed are ``error``, skipped files ``notice``. Silenced findings are not written.
    GitHub shows ten annotations of a level per step, so the first finding of every rule comes before the second of
    any, and among those the ones with the most trusted fix. Rows are those of the files as they were read; in
    notebooks they are the file's own, without columns, and the message names the cell.
    """
    every = outcomes(report)
    lines = [_failure(each) for each in sorted(report.failed_rules)]
    lines += [_annotation(each, places) for each in _by_weight(every)]
    lines += [_skipped(each, places) for each in sorted(report.skipped)]
    return "".join(line + "\n" for line in [*lines, _summary(report, every)])


def _by_weight(every: list[Outcome]) -> list[Outcome]:
    seen: Counter[tuple[str, bool]] = Counter()
    ranked = []
    for number, each in enumerate(every):
        repaired = each.state is FindingState.REPAIRED
        seen[each.finding.code, repaired] += 1
        ranked.append((repaired, seen[each.finding.code, repaired], _trust(each.finding), number))
    return [every[number] for _, _, _, number in sorted(ranked)]


def _trust(finding: Finding) -> int:
    return min((_TRUST[fix.applicability] for fix in finding.fixes), default=len(_TRUST))


def _annotation(each: Outcome, places: ReportPlaces) -> str:
    finding = each.finding
    title = f"{finding.code} {finding.name}"
    how = "repaired" if each.fix is not None else "gone with the other changes"
    cell = places.in_cell(finding.path, finding.span)
    level, title = ("notice", f"{title} ({how})") if each.state is FindingState.REPAIRED else ("warning", title)
    values = {"file": places.path(finding.path), **_region(finding, places), "title": printable(title)}
    said = [f"{cell}: {finding.message}" if cell else finding.message, *reasons(each, places)]
    return _command(level, values, "\n".join(map(printable, said)))


def _region(finding: Finding, places: ReportPlaces) -> dict[str, str]:
    """``endColumn`` is exclusive. GitHub takes columns only where first and last row are the same."""
    span = finding.span
    rows = places.rows(finding.path, span)
    if rows is None:
        return {}
    region = {"line": rows[0], "endLine": rows[1]}
    if span.row == span.end_row and not places.in_cell(finding.path, span):
        region |= {"col": span.column, "endColumn": max(span.column, span.end_column)}
    return {name: str(value) for name, value in region.items()}


def _failure(each: Skipped) -> str:
    return _command("error", {"title": "precfix: a rule failed"}, printable(f"{each.path}: {each.reason}"))


def _skipped(each: Skipped, places: ReportPlaces) -> str:
    values = {"title": "precfix: skipped"} if each.path == "." else {"file": places.path(each.path)}
    return _command("notice", values | {"title": "precfix: skipped"}, printable(f"{each.path}: {each.reason}"))


def _command(level: str, values: Mapping[str, str], message: str) -> str:
    said = ",".join(f"{name}={_property(value)}" for name, value in values.items())
    return f"::{level} {said}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    shown = "".join(char if char in "\r\n" else printable_char(char) for char in text)
    return _data(shown).replace(":", "%3A").replace(",", "%2C")


def _summary(report: Report, every: list[Outcome]) -> str:
    counts = Counter(each.state is FindingState.REPAIRED for each in every)
    parts = [f"{counts[False]} found"]
    parts += [f"{counts[True]} repaired"] if report.changes else []
    parts += [f"{len(report.skipped)} skipped"] if report.skipped else []
    parts += [f"{counted(len(report.failed_rules), 'rule')} failed"] if report.failed_rules else []
    more = f" GitHub shows {SHOWN} of a kind per step; this log has them all." if counts[False] > SHOWN else ""
    return f"precfix: {', '.join(parts)}.{more}"
