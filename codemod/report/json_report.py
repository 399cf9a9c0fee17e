"""The report for programs: one JSON object, whose field names are ruff's where ruff has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from ..model import EditRefused, Finding, Fix, Place, Span
from ..outcome import Declaration, Report, RunMove, RunReport
from .outcomes import FindingState, outcomes
from .places import ReportPlaces
from .tally import in_order, settled, tally

ReportJson: TypeAlias = "bool | int | str | list[ReportJson] | dict[str, ReportJson] | None"

VERSION = 1
"""Raised when a field is removed or changes its meaning; new fields may come at any time."""
MAX_LEFT_OUT = 1000
"""How many of the files and folders left out are listed; the summary counts them all."""


def to_json(
    report: Report,
    places: ReportPlaces,
    *,
    declarations: Sequence[Declaration] | None = None,
    runs: Sequence[RunReport] | None = None,
    elsewhere: Sequence[RunReport] = (),
) -> str:
    """The whole report as a JSON object, ASCII only, with a final newline.

    Rows and columns are 1-based and count characters; in notebooks ``cell`` is added and rows count inside it.
    The diagnostics are those of the files as they were read; ``applied`` says whether a fix was carried out,
    ``remaining`` whether the finding is still there afterwards (neither: it went with the other changes), and
    ``summary.remaining`` counts what is found afterwards, also what only came up then. ``fix`` is the fix that was
    chosen, else the best one; a fix that cannot be carried out has no edits and says why in ``refused``.
    ``declarations`` and ``runs`` are written only when given (``audit``); a run's entries are numbers of
    declarations. ``elsewhere`` lists, like runs, the files with declarations that no run is seen to reach.
    ``moves`` is written where a target was asked for: a run before and after, why it is left, and what
    still names the other 16-bit type.
    """
    out: dict[str, ReportJson] = {
        "version": VERSION,
        "target": report.target.regime,
        "target_source": report.target.source,
        "diagnostics": [*diagnostics(report, places)],
        "skipped": [{"filename": each.path, "reason": each.reason} for each in sorted(report.skipped)],
        "left_out": [{"filename": each.path, "reason": each.reason} for each in report.left_out[:MAX_LEFT_OUT]],
        "silenced": [
            {
                "code": each.finding.code,
                **_where(each.finding.path, each.finding.span, places),
                "by": each.by.value,
                "reason": each.reason or None,
            }
            for each in report.silenced
        ],
        "failed_rules": [{"code": each.path, "reason": each.reason} for each in sorted(report.failed_rules)],
    }
    if report.moves:
        out["moves"] = [_move(each, places) for each in report.moves]
    if declarations is not None:
        out["declarations"] = [_declaration(each, places) for each in declarations]
        numbers = {each: number for number, each in enumerate(declarations)}
        out["runs"] = [_run(each, numbers) for each in runs or ()]
        out["elsewhere"] = [_run(each, numbers) for each in elsewhere]
    out["summary"] = _summary(report)
    return json.dumps(out, indent=2) + "\n"


def to_json_lines(report: Report, places: ReportPlaces) -> str:
    """One JSON object per finding and line, ASCII only; nothing for a report without findings.

    The objects are those of ``diagnostics`` in the JSON report (see `to_json`), in the same order. ``check`` and
    ``migrate`` both write what was found in the files as they were read; ``applied`` tells what ``migrate`` repaired.
    Skipped files, failed rules, silenced findings and the summary are only in the JSON report.
    """
    return "".join(json.dumps(each) + "\n" for each in diagnostics(report, places))


def diagnostics(report: Report, places: ReportPlaces) -> Iterator[dict[str, ReportJson]]:
    """Each finding as it stands in ``diagnostics``, in order."""
    chosen = dict(settled(report))
    urls = {rule.code: rule.url for rule in report.rules}
    left = {each.finding for each in outcomes(report) if each.state is FindingState.LEFT}
    for finding in in_order(report.findings):
        out = _diagnostic(finding, chosen.get(finding), urls.get(finding.code, ""), places)
        yield out | {"remaining": finding in left}


def _diagnostic(finding: Finding, chosen: Fix | None, url: str, places: ReportPlaces) -> dict[str, ReportJson]:
    first = chosen or (finding.fixes[0] if finding.fixes else None)
    others = [fix for fix in finding.fixes if fix is not first and fix != first]
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        **_where(finding.path, finding.span, places),
        "evidence": [_evidence(place, places) for place in finding.evidence],
        "fix": None if first is None else _fix(first, places),
        "applied": chosen is not None,
        "alternatives": [_fix(fix, places) for fix in others],
        "url": url or None,
    }


def _where(path: str, span: Span, places: ReportPlaces) -> dict[str, ReportJson]:
    cell, row, column = places.locate(path, span.row, span.column)
    if span.end_column == 1 and span.end_row > span.row:
        # The end of a whole row: asked for through that row, since the next one may lie in another cell.
        _, end_row, end_column = places.locate(path, span.end_row - 1, 1)
        end_row, end_column = end_row + 1, 1
    else:
        _, end_row, end_column = places.locate(path, span.end_row, span.end_column)
    out: dict[str, ReportJson] = {"filename": path} if cell is None else {"filename": path, "cell": cell}
    return out | {
        "location": {"row": row, "column": column},
        "end_location": {"row": end_row, "column": end_column},
    }


def _evidence(place: Place, places: ReportPlaces) -> ReportJson:
    cell, row, _ = places.locate(place.path, place.span.row, place.span.column)
    out: dict[str, ReportJson] = {"filename": place.path} if cell is None else {"filename": place.path, "cell": cell}
    return out | {"row": row, "message": place.message}


def _fix(fix: Fix, places: ReportPlaces) -> ReportJson:
    out: dict[str, ReportJson] = {"name": fix.name, "applicability": fix.applicability.value, "message": fix.message}
    try:
        edits = places.edits_of(fix)
    except EditRefused as error:
        return out | {"edits": [], "refused": str(error)}
    return out | {"edits": [{**_where(edit.path, edit.span, places), "content": edit.content} for edit in edits]}


def _declaration(each: Declaration, places: ReportPlaces) -> ReportJson:
    return {
        **_where(each.path, each.span, places),
        "framework": each.framework,
        "key": each.key,
        "role": each.role,
        "value": each.value,
        "regime": each.regime or None,
        "condition": each.condition or None,
    }


def _move(each: RunMove, places: ReportPlaces) -> ReportJson:
    return {
        "title": each.title,
        "filename": each.path,
        "row": each.row,
        "before": each.before,
        "after": each.after,
        "state": each.state.value,
        "why": [_evidence(place, places) for place in each.why],
        "still": [_evidence(place, places) for place in each.still],
    }


def _run(each: RunReport, numbers: Mapping[Declaration, int]) -> ReportJson:
    return {
        "title": each.title,
        "filename": each.path,
        "row": each.row,
        "regime": each.default or each.regime,
        "otherwise": each.otherwise or None,
        "effective": dict(each.effective),
        "entries": [
            {
                "declaration": numbers[entry.declaration],
                "link": entry.link,
                "status": entry.status or None,
                "note": entry.note or None,
            }
            for entry in each.entries
        ],
    }


def _summary(report: Report) -> ReportJson:
    numbers = tally(report)
    return {
        "findings": numbers.findings,
        "files_with_findings": numbers.files,
        "fixable": numbers.fixable,
        "fixable_unsafe": numbers.fixable_unsafe,
        "applied": numbers.applied,
        "remaining": len(report.remaining),
        "by_code": {**numbers.by_code},
        "by_applicability": {**numbers.by_applicability},
        "files_seen": report.files_seen,
        "files_parsed": report.files_parsed,
        "files_changed": len(report.changes),
        "skipped": len(report.skipped),
        "left_out": len(report.left_out),
        "silenced": len(report.silenced),
        "off_target": [
            {"filename": run.path, "row": run.row, "regime": run.after} for run in report.moves if run.is_left
        ],
    }
