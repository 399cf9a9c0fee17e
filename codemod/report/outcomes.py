"""What became of each finding: which ones a service has to be told of, and as what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ..model import Finding, Fix, Rule
from ..outcome import Report, Silence, Silenced
from .places import ReportPlaces
from .tally import in_order, likeness, settled

FOUND_LATER = "found once the fixes are carried out"


class FindingState(str, Enum):
    """What a run did to a finding."""

    LEFT = "left"
    """It is still there: always so after ``check``."""
    REPAIRED = "repaired"
    """Its own fix was carried out, or another one's took it away."""
    LATER = "later"
    """It is found only in the changed text, where its rows are counted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A finding and what became of it; ``fix`` is the one that was carried out for it."""

    finding: Finding
    state: FindingState
    fix: Fix | None = None


def outcomes(report: Report) -> list[Outcome]:
    """Every finding in order, those that only came up after the changes last.

    What is ``LEFT`` or ``LATER`` is as many as ``report.remaining``: rows move when files change, so a finding is known
    again by its rule, file and message.
    """
    carried_out = dict(settled(report))
    remaining = report.remaining if report.changes else report.findings
    left = Counter(map(likeness, remaining))
    out: list[Outcome] = []
    for finding in in_order(report.findings):
        fix = carried_out.get(finding)
        stays = fix is None and left[likeness(finding)] > 0
        left[likeness(finding)] -= stays
        out.append(Outcome(finding, FindingState.LEFT if stays else FindingState.REPAIRED, fix))
    return out + [Outcome(finding, FindingState.LATER) for finding in in_order(_unmatched(report, left))]


def _unmatched(report: Report, left: Counter[tuple[str, str, str]]) -> Iterator[Finding]:
    """The last of those equal ones of ``report.remaining`` that no finding was known again in."""
    for finding in reversed(in_order(report.remaining if report.changes else ())):
        if left[likeness(finding)] > 0:
            left[likeness(finding)] -= 1
            yield finding


def reasons(each: Outcome, places: ReportPlaces) -> Iterator[str]:
    """A line per piece of evidence, then what was done about a finding, or could be."""
    for seen in each.finding.evidence:
        yield f"because: {places.shown(seen.path, seen.span)} {seen.message}"
    if each.state is FindingState.REPAIRED:
        yield f"repaired: {each.fix.message if each.fix else 'gone with the other changes'}"
        return
    if each.state is FindingState.LATER:
        yield FOUND_LATER
    for fix in each.finding.fixes:
        yield f"fix [{fix.applicability.value}] {fix.name}: {fix.message}"


def rules_of(report: Report) -> list[Rule]:
    """The rules that ran and those of the findings, by code."""
    known = {rule.code: rule for rule in report.rules}
    for finding in [*report.findings, *report.remaining, *(each.finding for each in report.silenced)]:
        known.setdefault(finding.code, Rule(finding.code, finding.name, "", lambda project: ()))
    return [known[code] for code in sorted(known)]


def silenced_by(each: Silenced) -> str:
    """Why a finding does not count, in words."""
    said = {
        Silence.COMMENT: each.reason or "a comment in the file",
        Silence.SETTINGS: "per-file-ignores in the settings",
        Silence.BASELINE: "it is in the baseline",
        Silence.UNCHANGED: "none of its lines has changed",
    }
    return said[each.by]
