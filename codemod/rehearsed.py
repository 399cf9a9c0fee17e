"""Findings and what a rehearsal saw at their places: who saw it is said once, and nothing is told twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from .model import Finding, Place, Span
from .observed.observation import Failure, FailureKind
from .python.seen import Seen, seen_of
from .source.project import Project

OBSERVED = "PF901"
"""The rule that tells what no other one explains."""
OF_DTYPES = ("PF2",)
"""How the codes of rules begin that say where a dtype comes from."""
OF_RANGE = ("PF209", "PF210")
"""Of these, what is too large or too small for 16 bits."""
SELDOM_EXPLAINED = (FailureKind.NONFINITE, FailureKind.OTHER)


def with_sight(project: Project, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """The findings, each with the failures that were seen at it as evidence.

    What another rule knows of is not told as an unexplained failure besides; what a rule finds by reading where the
    tensor came from, and repairs there, is not told at the place where it raised.
    """
    seen = seen_of(project)
    if seen is None:
        return tuple(findings)
    told = [_told(each, seen) for each in findings]
    raised = frozenset(map(seen.place_of, seen.failures))
    for failure in seen.failures:
        if failure.kind is FailureKind.DTYPE_MISMATCH:
            told = _told_at_its_cause(told, failure, seen.place_of(failure), raised)
        elif failure.kind in SELDOM_EXPLAINED:
            told = _explained(told, failure, seen.place_of(failure))
    known = [each for each in told if each.code != OBSERVED]
    return tuple(each for each in told if each.code != OBSERVED or not any(is_told(one, each) for one in known))


def _told_at_its_cause(
    findings: list[Finding], failure: Failure, raised: Place, all_raised: frozenset[Place]
) -> list[Finding]:
    """The findings, where one that stands on the way to the failure repairs it: instead of that at the failure."""
    at_failure = [each for each in findings if each.evidence[:1] == (raised,)]  # what is read begins elsewhere
    read = (each for each in findings if all_raised.isdisjoint(each.evidence[:1]))
    causes = [each for each in read if _stands_on_the_way(each, failure)]
    asked = any(map(_is_repaired, at_failure))
    able = (each for each in causes if _is_repaired(each) or (each.fixes and not asked))
    best = min(able, key=lambda each: _distance(each, failure), default=None)
    if best is None or not at_failure:
        return findings
    explained = replace(best, evidence=tuple(dict.fromkeys((*best.evidence, raised))))
    return [explained if each is best else each for each in findings if each not in at_failure]


def _explained(findings: list[Finding], failure: Failure, raised: Place) -> list[Finding]:
    """The findings, where a rule knows of the place that the failure comes from: instead of an unexplained failure."""
    rules = OF_RANGE if failure.kind is FailureKind.NONFINITE else OF_DTYPES
    causes = (each for each in findings if each.code.startswith(rules) and _stands_on_the_way(each, failure))
    foretold = (each for each in findings if each.code != OBSERVED and failure.error and failure.error in each.message)
    cause = next(chain(foretold, causes), None)
    if cause is None:
        return findings
    explained = replace(cause, evidence=tuple(dict.fromkeys((*cause.evidence, raised))))
    here = [each for each in findings if each.code == OBSERVED and _stands_at(_place(each), failure)]
    return [explained if each is cause else each for each in findings if each not in here]


def _is_repaired(finding: Finding) -> bool:
    return any(fix.applicability.value == "safe" for fix in finding.fixes)


def _stands_on_the_way(finding: Finding, failure: Failure) -> bool:
    """Whether a finding of dtypes stands where an operand was made, or at a call that led to the failure."""
    if not finding.code.startswith(OF_DTYPES):
        return False
    rows = {(birth.path, birth.row) for operand in failure.operands for birth in operand.born}
    rows |= {(call.path, call.span.row) for call in failure.stack}
    rows.discard((failure.path, failure.span.row))
    return any(path == finding.path and _has_row(finding.span, row) for path, row in rows)


def _has_row(span: Span, row: int) -> bool:
    return span.row <= row <= span.end_row


def _distance(finding: Finding, failure: Failure) -> int:
    """How many lines of the way lie between a finding and the failure."""
    rows = [(birth.path, birth.row) for operand in failure.operands for birth in reversed(operand.born)]
    at = (rows.index(row) for row in rows if row[0] == finding.path and _has_row(finding.span, row[1]))
    return next(at, len(rows))


def seen_failures(project: Project, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Those of the findings that tell of something that was seen to fail."""
    seen = seen_of(project)
    failures = seen.failures if seen is not None else ()
    died = seen.died if seen is not None else None
    return tuple(
        each
        for each in findings
        if any(is_told(each, failure) for failure in failures) or (died is not None and _foretells(each, died))
    )


def _foretells(finding: Finding, death: Failure) -> bool:
    """Whether a finding names the error that the program died of at its place: a name that does not exist."""
    here = finding.path == death.path and _has_row(death.span, finding.span.row)
    return here and f"({death.error_type})" in finding.message


def is_told(finding: Finding, failure: Failure | Finding) -> bool:
    """Whether a finding speaks of the place where something failed, or was found."""
    return any(_stands_at(place, failure) for place in (_place(finding), *finding.evidence))


def _told(finding: Finding, seen: Seen) -> Finding:
    if finding.code == OBSERVED:
        return finding
    here = [seen.place_of(failure) for failure in seen.failures if is_told(finding, failure)]
    return replace(finding, evidence=tuple(dict.fromkeys((*finding.evidence, *here))))


def _stands_at(place: Place, failure: Failure | Finding) -> bool:
    return place.path == failure.path and _has_row(place.span, failure.span.row)


def _place(finding: Finding) -> Place:
    return Place(finding.path, finding.span, finding.message)
