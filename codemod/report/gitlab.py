"""The report for GitLab's Code Quality widget."""

from __future__ import annotations

import json

from ..outcome import Report
from .fingerprints import unique_fingerprints
from .json_report import ReportJson
from .outcomes import FOUND_LATER, FindingState, Outcome, outcomes
from .places import ReportPlaces
from .printable import printable

SEVERITY = "major"
"""The one severity that is written: rules do not grade their findings."""


def to_gitlab(report: Report, places: ReportPlaces) -> str:
    """A Code Quality report (a JSON array), ASCII only, with a final newline.

    ``check`` writes every finding, ``migrate`` those that are left, so that the widget shows repaired ones as resolved.
    Fingerprints are stable while lines move. In notebooks lines are those of the file, and the description names the
    cell. The format has no place for skipped files, failed rules and silenced findings: they are not written.
    """
    every = outcomes(report)
    prints = unique_fingerprints([each.finding for each in every], places.source_of)
    issues = [_issue(each, prints[each.finding], places) for each in every if each.state is not FindingState.REPAIRED]
    return json.dumps(issues, indent=2) + "\n"


def _issue(each: Outcome, fingerprint: str, places: ReportPlaces) -> ReportJson:
    finding = each.finding
    first, last = places.rows(finding.path, finding.span) or (1, 1)
    said = [f"{finding.code} {finding.name}", places.in_cell(finding.path, finding.span), finding.message]
    if each.state is FindingState.LATER:
        said.append(FOUND_LATER)
    return {
        "type": "issue",
        "check_name": printable(finding.code),
        "description": printable(": ".join(part for part in said if part)),
        "categories": ["Bug Risk"],
        "severity": SEVERITY,
        "fingerprint": fingerprint,
        "location": {"path": places.path(finding.path), "lines": {"begin": first, "end": last}},
    }
