"""Carries a move out as transactions: a run arrives with all of its declarations, or its edits are withdrawn."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import TypeAlias

from .. import engine
from ..engine import Options
from ..model import Applicability, Edit, Finding, Fix, Place, Rule
from ..outcome import Report, RunReport, Target
from ..purpose.targets import compute_dtype
from ..source.project import Project
from ..torch.dtypes import DTYPE_WORDS, FP16, HALVES, Dtype
from .pairs import only_own
from .rows import is_listed, row_of, with_still
from .still_says import of_no_run
from .verifying import MOVE, Verdict, changed, tell, verdicts

Decide: TypeAlias = "Callable[[Project, Finding, Fix], Fix | None]"

SCALER_UNDER_BF16 = "PF101"
"""The rule that takes a scaler away."""
WORD = re.compile(r"[a-z0-9]+")
MAX_TRIES = 5
"""How often runs may be withdrawn one after the other; then all of them are."""


def move(
    project: Project,
    rules: Sequence[Rule],
    target: Target,
    options: Options,
    known: Sequence[Rule] = (),
    *,
    withdraws: bool = True,
) -> Report:
    """Find mistakes and apply fixes as `engine.migrate` does, and hold every run to the target that was asked for.

    ``known`` are all rules: those about contradictions judge the new texts, also where they were not asked for.
    Without ``withdraws`` a run that does not arrive is only said to be left: somebody chose its fixes one by one.
    """
    options = _moving(project, options)
    report = engine.migrate(project, rules, target, options)
    if project.target is None or report.failed_rules:
        return report
    after = changed(project, report)
    judged = verdicts(project, after, report, known, options)
    doubts = _doubts(judged)
    held: set[Edit] = set()
    back: dict[RunReport, tuple[Place, ...]] = {}
    frozen: set[str] = set()
    for number in range(MAX_TRIES if withdraws else 0):
        failing = _failing(judged)
        if not failing:
            break
        if number == MAX_TRIES - 1:
            moves = (fix for finding, fix in report.applied if finding.code == MOVE)
            failing = {edit: _why(judged) for fix in moves for edit in fix.edits}
        held |= failing.keys()
        back = {**dict(_taken_back(judged, failing)), **back}
        frozen |= _changed_by_others(judged)
        report = engine.migrate(project, rules, target, replace(options, decide=_refusing(held, frozen, options)))
        after = changed(project, report)
        judged = verdicts(project, after, report, known, options)
        doubts = {**_doubts(judged), **doubts}
    tell(options, "what is left")
    rows = [(each, with_still(project, after, each, row_of(each, target, back, options), target)) for each in judged]
    applied = tuple((finding, _doubted(fix, doubts)) for finding, fix in report.applied)
    found, left = (tuple(_with_doubts(each, doubts) for each in some) for some in (report.findings, report.remaining))
    listed = tuple(only_own(project, row) for each, row in rows if is_listed(each, row))
    unused = (of_no_run(row, each.pair, target) for each, row in rows if not listed)
    listed = listed or tuple(row for row in unused if row.still)
    return replace(report, findings=found, remaining=left, applied=applied, moves=listed)


def _doubts(judged: Iterable[Verdict]) -> dict[Edit, Place]:
    """Why the edits of a run need leave, by the edits."""
    return {edit: each.doubts[0] for each in judged if each.doubts for fix in each.applied for edit in fix.edits}


def _with_doubts(finding: Finding, doubts: Mapping[Edit, Place]) -> Finding:
    if finding.code != MOVE or doubts.keys().isdisjoint(edit for fix in finding.fixes for edit in fix.edits):
        return finding
    return replace(finding, fixes=tuple(_doubted(fix, doubts) for fix in finding.fixes))


def _doubted(fix: Fix, doubts: Mapping[Edit, Place]) -> Fix:
    """``fix``, unsafe where something of the run is not explained."""
    place = next((doubts[edit] for edit in fix.edits if edit in doubts), None)
    if place is None or fix.applicability is Applicability.UNSAFE:
        return fix
    message = f"{fix.message}; unsafe, as {place.path}:{place.span.row} {place.message}"
    return replace(fix, applicability=Applicability.UNSAFE, message=message)


def _failing(judged: Iterable[Verdict]) -> dict[Edit, tuple[Place, ...]]:
    """The edits that have to be withdrawn, each with the reason; other lines of a file may be other runs."""
    found: dict[Edit, tuple[Place, ...]] = {}
    for each in judged:
        for fix in (each.applied or each.others) if each.failures else ():
            for edit in fix.edits:
                found.setdefault(edit, each.failures)
    return found


def _taken_back(
    judged: Iterable[Verdict], failing: Mapping[Edit, tuple[Place, ...]]
) -> Iterator[tuple[RunReport, tuple[Place, ...]]]:
    """The runs that lose an edit, each with the reasons."""
    for each in judged:
        lost = [place for fix in (*each.applied, *each.others) for edit in fix.edits for place in failing.get(edit, ())]
        if each.failures or lost:
            yield each.pair.before, tuple(dict.fromkeys((*each.failures, *lost)))


def _changed_by_others(judged: Iterable[Verdict]) -> set[str]:
    """The files in which not the move but the fixes of other rules change what a run computes in."""
    failing = (each for each in judged if each.failures and not each.applied)
    return {path for each in failing for fix in each.others for path in _paths(fix)}


def _why(judged: Iterable[Verdict]) -> tuple[Place, ...]:
    return next((each.failures for each in judged if each.failures), ())


def _paths(fix: Fix) -> set[str]:
    return {edit.path for edit in fix.edits}


def _refusing(held: Set[Edit], frozen: Set[str], options: Options) -> Decide:
    """Refuses the moves that were withdrawn, and all of the files ``frozen``; asks for the others whoever is asked."""

    def decide(project: Project, finding: Finding, fix: Fix) -> Fix | None:
        is_refused = not (held.isdisjoint(fix.edits) if finding.code == MOVE else frozen.isdisjoint(_paths(fix)))
        if is_refused:
            return None
        return fix if options.decide is None else options.decide(project, finding, fix)

    return decide


def _moving(project: Project, options: Options) -> Options:
    """``options`` of a move: what judges a run by the regime it has today waits until it has the new one."""
    target, asked = project.target, options.decide
    if target is None:
        return options

    def decide(project: Project, finding: Finding, fix: Fix) -> Fix | None:
        if finding.code != MOVE and _is_for_another(compute_dtype(target), finding, fix):
            return None
        return fix if asked is None else asked(project, finding, fix)

    return replace(options, first=MOVE, decide=decide)


def _is_for_another(wanted: Dtype | None, finding: Finding, fix: Fix) -> bool:
    """Whether a fix suits the regime of today only: a run that is left for now will compute in ``wanted``."""
    if finding.code == SCALER_UNDER_BF16:
        return wanted == FP16
    written = {DTYPE_WORDS.get(word) for edit in fix.edits for word in WORD.findall(repr(edit.operation))}
    return wanted in HALVES and not written.isdisjoint({*HALVES} - {wanted})
