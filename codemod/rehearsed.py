"""Findings and what a rehearsal saw at their places: who saw it is said once, and nothing is told twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from .model import Finding, Place
from .observed.observation import Failure
from .python.seen import Seen, seen_of
from .source.project import Project

OBSERVED = "PF901"
"""The rule that tells what no other one explains."""


def with_sight(project: Project, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each with the failures that were seen at it as evidence.

    What another rule knows of is not told as an unexplained failure besides.
    """
    seen = seen_of(project)
    if seen is None:
        return tuple(findings)
    told = [_told(each, seen) for each in findings]
    known = [each for each in told if each.code != OBSERVED]
    return tuple(each for each in told if each.code != OBSERVED or not any(_covers(one, each) for one in known))


def seen_failures(project: Project, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those of the findings that tell of something that was seen to fail."""
    seen = seen_of(project)
    failures = seen.failures if seen is not None else ()
    return tuple(each for each in findings if any(is_told(each, failure) for failure in failures))


def is_told(finding: Finding, failure: Failure) -> bool:
    """Whether a finding speaks of the place where something failed."""
    return any(_stands_at(place, failure) for place in (_place(finding), *finding.evidence))


def _told(finding: Finding, seen: Seen) -> Finding:
    if finding.code == OBSERVED:
        return finding
    here = [seen.place_of(failure) for failure in seen.failures if is_told(finding, failure)]
    return replace(finding, evidence=tuple(dict.fromkeys((*finding.evidence, *here))))


def _covers(finding: Finding, other: Finding) -> bool:
    return any(
        place.path == other.path and place.span.row <= other.span.row <= place.span.end_row
        for place in (_place(finding), *finding.evidence)
    )


def _stands_at(place: Place, failure: Failure) -> bool:
    return place.path == failure.path and place.span.row <= failure.span.row <= place.span.end_row


def _place(finding: Finding) -> Place:
    return Place(finding.path, finding.span, finding.message)
