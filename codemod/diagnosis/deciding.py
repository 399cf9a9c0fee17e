"""Which cause it is, how sure that is, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from packaging.version import Version

from ..releases.pins import allowed
from ..source.project import Project
from .catalog import Cause, Fault, KnownMessage
from .evidence import Evidence

LIKELY = 0.6
POSSIBLE = 0.08
"""Causes with less than this share of the belief are not shown."""
FOUND_WEIGHT = 40.0
"""How much a finding of a rule in the project speaks for a cause."""


class Sureness(str, Enum):
    """How far a cause can be trusted."""

    SHOWN = "shown by the code"
    LIKELY = "likely"
    POSSIBLE = "possible"


@dataclass(frozen=True, slots=True)
class Judged:
    """A cause with how sure it is and what speaks for it."""

    cause: Cause
    belief: float
    sureness: Sureness
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FaultSeen:
    """A library's fault that fits; ``version`` is what the log or the project says of it, empty where nothing does."""

    fault: Fault
    version: str
    reasons: tuple[str, ...]

    @property
    def certain(self) -> bool:
        return bool(self.version)


def judge(evidence: Evidence, found: Iterable[str] = (), at_frame: bool = False) -> tuple[Judged, ...]:
    """The causes, likeliest first.

    ``found`` are the rules that have findings for this message in the project; ``at_frame`` whether one is on the way
    of the traceback, which shows the cause instead of making it likely.
    """
    entry, codes = evidence.match.entry, {*found}
    weighed = [_weighed(cause, evidence, codes) for cause in entry.causes]
    total = sum(weight for weight, _ in weighed) or 1.0
    judged = []
    for cause, (weight, reasons) in zip(entry.causes, weighed, strict=True):
        shown = at_frame and not codes.isdisjoint(cause.rules)
        judged.append(Judged(cause, weight / total, _sureness(weight / total, reasons, shown, entry), reasons))
    ordered = sorted(judged, key=lambda each: -each.belief)
    return tuple(each for each in ordered if each.belief >= POSSIBLE or each is ordered[0])


def _weighed(cause: Cause, evidence: Evidence, found: set[str]) -> tuple[float, tuple[str, ...]]:
    weight = (cause.seen + 0.25) / (cause.of + 1)
    reasons = []
    for condition in cause.when:
        seen = evidence.shows(condition)
        if seen:
            weight *= condition.weight
            reasons.append(seen)
    if any(evidence.shows(condition) for condition in cause.unless):
        weight *= 0.1
    if not found.isdisjoint(cause.rules):
        weight *= FOUND_WEIGHT
        named = ", ".join(sorted(found & {*cause.rules}))
        reasons.insert(0, f"{named} finds it in the project")
    return weight, tuple(dict.fromkeys(reasons))


def _sureness(belief: float, reasons: Sequence[str], shown: bool, entry: KnownMessage) -> Sureness:
    if shown:
        return Sureness.SHOWN
    is_only = len(entry.causes) == 1
    return Sureness.LIKELY if is_only or (belief >= LIKELY and reasons) else Sureness.POSSIBLE


def faults_seen(evidence: Evidence, project: Project | None = None) -> tuple[FaultSeen, ...]:
    """The library faults that fit: by the version that the log names, else by the project's pins or the traceback."""
    found = (_seen(fault, evidence, project) for fault in evidence.match.entry.faults)
    return tuple(seen for seen in found if seen is not None)


def _seen(fault: Fault, evidence: Evidence, project: Project | None) -> FaultSeen | None:
    version = evidence.log.versions.get(fault.library, "")
    reasons = tuple(filter(None, map(evidence.shows, fault.when)))
    if fault.when and not reasons:
        return None
    if version:
        return FaultSeen(fault, version, reasons) if Version(version) < Version(fault.below) else None
    releases = allowed(project, fault.library) if project is not None else None
    if releases is None:
        return FaultSeen(fault, "", reasons) if reasons else None
    if not releases.may_be_below(fault.below):
        return None
    place = releases.places[0]
    always = not releases.may_reach(fault.below)
    return FaultSeen(fault, f"as {place.path}:{place.span.row} pins it" if always else "", reasons)
