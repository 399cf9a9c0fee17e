"""Whether a run is at the target: only where the ledger of the new texts reads that, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import Fix, Place, Span
from ..outcome import RunReport, Target
from ..purpose.targets import compute_dtype
from ..torch.dtypes import MIXED, TRUE
from ..trainers.reading.region_switches import ENABLED
from .left_behind import named_by, other_halves
from .pairs import UNKNOWN, RunPair

FP32 = "fp32"
FOLLOWED = ("compute", "option")
"""Roles of what moves in a file that only others start, which alone does not say what runs."""
UNPROVED = "it could not be proved that the run then computes in {}: no declaration that is read says so"
NOT_HALF = "not all weights that it trains are seen to be {}"
HALF_WEIGHTS = "it trains {} weights, which {} keeps in float32: change it by hand unless they are meant"
OF_THE_MACHINE = "portable"
"""The target that is no regime: what it asks for is decided where the project runs."""


def has_arrived(pair: RunPair, target: Target) -> bool:
    """Whether the ledger of the new texts reads the very target, or float32 where nobody switches an option on."""
    is_off_now = pair.after is not None and pair.after.default == FP32 != pair.before.default
    is_off = target.regime == FP32 and (is_off_now or is_there_already(pair, target))
    return is_off or target.regime in (OF_THE_MACHINE, pair.regime)


def is_there_already(pair: RunPair, target: Target) -> bool:
    """Whether float32 was asked for, and a run has it before and after, whatever may be switched on.

    What is still found then is for those who switch it on; a run through several files has one of them that does.
    """
    runs = (pair.before, pair.after or pair.before)
    if target.regime != FP32 or any(FP32 not in (run.default, run.regime) for run in runs):
        return False
    switches = [item for item in pair.declared if item.feeds and item.condition.startswith(ENABLED)]
    return pair.before.default != FP32 or all(item.regime in ("", FP32) for item in switches)


def may_stay_open(pair: RunPair, target: Target, applied: Sequence[Fix] = ()) -> bool:
    """Whether nobody can tell what it computes in, before and after, and nothing of it is seen to be off the target.

    What was moved in files that nothing is seen to read is not said of the run, and casts decide nothing. To float32, a
    file that nothing starts may have regions that a switch opens, which is off where that is set.
    """
    said = [entry.declaration for entry in pair.entries if entry.declaration.regime]
    if pair.regime != UNKNOWN:
        is_switched = all(item.condition for item in said) and not pair.is_run
        return target.regime == FP32 and bool(applied) and is_switched
    if pair.before.regime == UNKNOWN and (_says_all(pair, target) or not is_left_open(pair, applied)):
        return True
    return target.regime == FP32 and {item.regime for item in said} <= {FP32}


def _says_all(pair: RunPair, target: Target) -> bool:
    """Whether what sets the precision of a run names the target's dtype, and nothing the other one."""
    wanted, told = compute_dtype(target.regime), [entry.declaration for entry in pair.entries]
    wins = [entry.declaration for entry in pair.entries if entry.status == "wins"]
    setting = [item for item in told if item.role in (*FOLLOWED, "entry")]
    leaves = other_halves(target).isdisjoint(map(named_by, told)) and wanted in map(named_by, setting)
    return leaves and all(named_by(item) == wanted for item in wins)


def is_left_open(pair: RunPair, applied: Sequence[Fix]) -> bool:
    """Whether a run stays unknown although a fix changes a file that says more of it than casts."""
    if pair.regime != UNKNOWN or (not pair.is_run and any(item.declaration.role in FOLLOWED for item in pair.entries)):
        return False
    told = [entry.declaration for entry in pair.before.entries]
    casts = {item.path for item in told if item.role == "cast"} - {item.path for item in told if item.role != "cast"}
    return any(edit.path in pair.paths - casts for fix in applied for edit in fix.edits)


def off_target(run: RunReport, target: Target) -> Iterator[Place]:
    """The declarations that would keep a run from its target."""
    others = [entry for entry in run.entries if entry.declaration.regime != target.regime]
    winning = [entry.declaration for entry in others if entry.status == "wins"]
    why = weights_apart(run, target)
    said = f"after the edits the run would compute in {run.regime}" + (f": {why}" if why else "")
    if run.regime == UNKNOWN:
        said = UNPROVED.format(target.regime)
        kept = (entry.declaration for entry in others if entry.declaration.regime and not entry.declaration.condition)
        stays = next((item for item in kept if item.role == "compute"), None)
        if stays is not None and len(others) < len(run.entries):
            yield Place(stays.path, stays.span, f"beside the edits this stays {stays.regime}: {stays.key}")
            return
    for item in winning:
        yield Place(item.path, item.span, f"{said}: {item.said}")
    if not winning:
        told = next((entry.declaration for entry in run.entries), None)
        yield Place(told.path, told.span, said) if told else Place(run.path, Span(run.row, 1, run.row, 1), said)


def mixed_of(target: Target) -> str:
    """The regime of regions in the dtype of a target."""
    dtype = compute_dtype(target.regime)
    return MIXED[dtype] if dtype is not None else ""


def weights_apart(run: RunReport, target: Target) -> str:
    """What the weights have to do with it that a run computes in the target's dtype and is not at the target."""
    dtype = compute_dtype(target.regime)
    if dtype is None or run.regime == target.regime:
        return ""
    if run.regime == TRUE.get(dtype):
        return HALF_WEIGHTS.format(dtype.name, target.regime)
    return NOT_HALF.format(dtype.name) if run.regime == MIXED[dtype] else ""
