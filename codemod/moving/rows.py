"""The rows of the table that ends a move: what became of each run, why, and what still names the old type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..engine import Options
from ..half.weighed_ledger import run_of
from ..model import Finding, Place, Span
from ..outcome import Declaration, MoveState, RunEntry, RunMove, RunReport, Target
from ..purpose.files import purpose_of
from ..purpose.targets import compute_dtype
from ..source.project import Project
from ..torch.dtypes import FP16, Dtype, as_dtype
from ..trainers.framework import FAMILIES
from ..trainers.reading.auditing import CHOSEN
from ..trainers.reading.code_declarations import TORCH
from ..trainers.reading.documented import DOCUMENTED
from ..trainers.reading.followed import BY_MACHINE, regimes_given
from ..trainers.reading.left_open import ELSEWHERE
from ..trainers.reading.region_switches import ENABLED
from ..trainers.reading.run_regimes import NOTHING
from ..trainers.reading.silent_runs import where_to_state
from ..trainers.reading.stated_apex import FLOAT16_ALONE
from ..trainers.reading.stated_casts import PARTS
from ..trainers.writing.transactions import STAYS
from .arriving import FP32, has_arrived, is_there_already, may_stay_open, mixed_of, off_target, weights_apart
from .asks_hardware import asks_for_hardware
from .left_behind import CODE, dtype_of, last_part, named_by, other_halves
from .pairs import UNKNOWN
from .remarks import told_beside
from .spelled import spelled_in_texts
from .still_says import as_edited, loose_entries, not_known, other_regions, shown_to_users, still_saying
from .verifying import Verdict, modules_and_built, said

OFF = "mixed precision is declared off for this run"
NOT_ON = "nothing switches mixed precision on for this run"
NO_REGION = "no region was found that this is for, see what computes in float16"
NOT_FOLLOWED = "what that is cannot be followed, see what the run computes in"
BY_HAND = "no automatic edit is known, change it by hand"
NO_EDIT = "change it by hand: no automatic edit is known for this run"
SET, DEFAULTS = ("entry", "flag", "variable", "argument"), ("option", "fallback")
"""Roles of values that somebody sets, and of those that count where nobody does."""
MAX_PLACES = 5
"""How many places that are in the way a run names."""


def is_listed(each: Verdict, row: RunMove) -> bool:
    """Whether the table names it: a run, a file in which the move changes or finds something, or one that trains."""
    edited = {edit.path for fix in each.applied for edit in fix.edits} | {item.path for item in each.left}
    touched = row.path in edited and row.state is not MoveState.APART
    is_told = row.state in (MoveState.LOOSE, MoveState.WITHDRAWN)
    return each.pair.is_run or touched or is_told or _trains(each, row)


def _trains(each: Verdict, row: RunMove) -> bool:
    """Whether a file that nothing starts trains in another precision, whatever is switched on."""
    if row.state is not MoveState.LEFT or row.after == FP32 or each.is_apart:
        return False
    told = [entry.declaration for entry in each.pair.entries]
    if row.after == UNKNOWN:
        return any(item.role == "compute" and item.framework in FLOAT16_ALONE for item in told)
    stated = {FAMILIES.get(item.regime) for item in told if not item.condition.startswith(ENABLED)}
    return FAMILIES.get(row.after) in stated - {None}


def row_of(each: Verdict, target: Target, back: Mapping[RunReport, tuple[Place, ...]], options: Options) -> RunMove:
    """What became of a run; ``back`` has the reasons of those whose edits were withdrawn."""
    run = each.pair.before
    withdrawn = back.get(run, ())
    stated = _stated(each, target)
    state = _state(each, target, bool(withdrawn), bool(stated))
    if state is MoveState.MOVED and each.behind:
        return RunMove(run.title, run.path, run.row, _said(run), _said(each.pair.after), MoveState.PARTLY, each.behind)
    why: tuple[Place, ...] = ()
    if state in (MoveState.LEFT, MoveState.PARTLY, MoveState.WITHDRAWN):
        left = [Place(item.path, item.span, said(item, options)) for item in sorted(each.left, key=_is_held)]
        open_after = off_target(each.pair.after or run, target) if state is MoveState.PARTLY else ()
        why = (*dict.fromkeys([*withdrawn, *left] or stated or [*open_after] or [_start(run, target)]), *each.changed)
    elif state is MoveState.MOVED and run.default == FP32:
        why = (_start(run, target).saying(f"computes in {FP32} except with {run.otherwise.partition(' with ')[2]}"),)
    return RunMove(run.title, run.path, run.row, _said(run), _said(each.pair.after), state, why[:MAX_PLACES])


def _said(run: RunReport | None) -> str:
    """What a run computes in; where a switch, or a file that nobody knows, turns it on, both that it can be."""
    if run is None:
        return UNKNOWN
    if run.default == FP32:
        return run.shown
    return f"{run.regime} or {FP32}" if run.default == UNKNOWN else run.regime


def with_still(project: Project, after: Project, each: Verdict, row: RunMove, target: Target) -> RunMove:
    """``row`` with what still names the other 16-bit type, of a run that was to leave it."""
    run = each.pair.before
    if not is_listed(each, row):
        loose = loose_entries(each.pair, target)
        return replace(row, state=MoveState.LOOSE, why=(), still=loose) if loose else row
    if row.state is MoveState.APART and _follows_setting(project, after, each, target):
        return replace(row, after=target.regime, state=MoveState.MOVED)
    if not row.is_left and row.state not in (MoveState.MOVED, MoveState.UNSTATED):
        return replace(row, still=tuple(shown_to_users(each.pair, target))) if row.state is MoveState.THERE else row
    if row.is_left and not (run.entries or each.left) and (read := run_of(project, run)) is not None:
        place = where_to_state(project, read, target.regime, _to_add(target))
        return replace(row, why=(place,)) if place is not None else row
    code = modules_and_built(project, run)
    net, modules = (still_saying if row.is_left else not_known)(after, each.pair, target, *code), code[0]
    if row.state is MoveState.MOVED:
        besides = [*asks_for_hardware(after, target, modules), *spelled_in_texts(after, each.pair, target, modules)]
        net = (*besides, *net)
    if row.state is MoveState.UNSTATED:
        net = (*net, *other_regions(each.pair, (target.regime, mixed_of(target))))
    still = [*as_edited(project, after, net)]
    if row.state is MoveState.MOVED:
        still = [*told_beside(project, after, each.pair, each.applied, target), *still]
    known = {(place.path, place.span.row) for place in row.why}
    known |= {(item.path, at) for item in each.left for at in range(item.span.row, item.span.end_row + 1)}
    known |= {(place.path, place.span.row) for item in each.left for place in item.evidence}
    told = {(place.path, place.span.row): place for place in still}
    return replace(row, still=tuple(place for spot, place in told.items() if spot not in known))


def _follows_setting(project: Project, after: Project, each: Verdict, target: Target) -> bool:
    """Whether code that trains nothing is at the target as well, since a setting has moved that all of it reads."""
    path, regions = each.pair.before.path, (item for item in each.pair.declared if item.role == "compute")
    is_given = all(item.condition or item.feeds for item in regions)
    return is_given and regimes_given(project, path) != regimes_given(after, path) == {target.regime}


def _to_add(target: Target) -> str:
    """What brings plain code that states no precision to a target."""
    dtype = compute_dtype(target.regime)
    name = dtype.name if dtype is not None else FP32
    if target.regime != mixed_of(target):
        return f"the model cast to {name}"
    return f"autocast in {name} around its forward pass{' and a gradient scaler' if dtype == FP16 else ''}"


def _start(run: RunReport, target: Target) -> Place:
    said = NOT_ON if run.regime == FP32 else weights_apart(run, target) or NO_EDIT
    return Place(run.path, Span(run.row, 1, run.row, 1), said)


def _is_held(finding: Finding) -> bool:
    """Whether a step only waits for another one, which then comes first."""
    return any(place.message == STAYS for place in finding.evidence)


def _state(each: Verdict, target: Target, withdrawn: bool, stated: bool) -> MoveState:
    regime = each.pair.regime
    arrived = has_arrived(each.pair, target)
    is_open = may_stay_open(each.pair, target, each.applied)
    if not (each.applied or each.is_apart or (withdrawn and each.left)) and is_there_already(each.pair, target):
        return MoveState.THERE
    if each.is_apart and not each.applied:
        return MoveState.APART
    if each.failures:
        return MoveState.PARTLY
    if each.applied and (arrived or is_open):
        was_there = regime == each.pair.before.regime and each.pair.paths.isdisjoint(
            edit.path for fix in each.applied for edit in fix.edits
        )
        return MoveState.PARTLY if not arrived else MoveState.THERE if was_there else MoveState.MOVED
    if each.left or not (arrived or is_open) or (regime == UNKNOWN and stated):
        return MoveState.WITHDRAWN if withdrawn else MoveState.LEFT
    if regime == UNKNOWN:
        is_silent = not each.pair.before.entries and target.regime != FP32
        return MoveState.LEFT if is_silent else MoveState.UNSTATED
    return MoveState.THERE if regime == each.pair.before.regime else MoveState.MOVED


def _stated(each: Verdict, target: Target) -> list[Place]:
    """What says that a run computes otherwise, where no rule knows how to move it.

    Of a run that is not known somebody may set something to another 16-bit dtype, whatever the code makes of it.
    """
    entries, others = each.pair.entries, other_halves(target)
    is_unknown = each.pair.regime == UNKNOWN
    if is_unknown and any(entry.declaration.regime == target.regime for entry in entries):
        return []  # what is at the target already stands beside what is meant to differ
    found = [entry.declaration for entry in entries if _asks_for_another(entry, target)]
    if not found and is_unknown and not purpose_of(each.pair.before.path).is_left_alone:
        told = [entry.declaration for entry in entries]
        given = {last_part(item.key) for item in told if item.role == "entry" and not item.path.endswith(CODE)}
        told = [item for item in told if item.role != "fallback" or last_part(item.key) not in given]
        named = (item for item in told if named_by(item) in others)
        shown = DOCUMENTED if all(item.role in (DOCUMENTED, "cast") for item in told) else ""
        found = [item for item in named if item.role in (*SET, shown) or (item.role in DEFAULTS and not item.feeds)]
        scalers = [item for item in told if FP16 in others and _scales(item)]
        unknown = [item for item in told if others and _is_not_followed(item)]
        found += scalers if not unknown else ()  # what they scale is one of those
        found = found or (unknown if each.pair.is_run or scalers else [])
    alike = {(item.key, item.value) if BY_MACHINE in item.value else item: item for item in reversed(found)}
    kept = (item for item in found if item in alike.values())  # each test of the machine once
    return [Place(item.path, item.span, f"{item.said}: {_reason(item)}") for item in kept]


def _is_not_followed(item: Declaration) -> bool:
    """Whether a trainer or a region is given something of which nobody can tell what it is."""
    if item.role != "compute" or item.regime:
        return False
    is_open = item.framework == TORCH and not isinstance(as_dtype(item.value.partition(" (")[0]), Dtype)
    return item.value == ELSEWHERE or (item.key == "autocast" and is_open)


def _reason(item: Declaration) -> str:
    if _is_not_followed(item):
        return NOT_FOLLOWED
    if item.regime == FP32:
        return NOT_ON if item.key == NOTHING else OFF
    return NO_REGION if item.role == "scaler" else BY_HAND


def _scales(item: Declaration) -> bool:
    """Whether it is a scaler that no switch turns off: something computes in float16."""
    return item.role == "scaler" and item.value == "on" and not item.condition


def _asks_for_another(entry: RunEntry, target: Target) -> bool:
    """Whether a declaration names another 16-bit dtype than the target computes in, or another regime."""
    item = entry.declaration
    if item.role == "island" or item.condition == CHOSEN:
        return False
    if item.regime:
        is_region = item.framework == TORCH and item.regime == mixed_of(target)
        return item.regime != target.regime and not is_region and entry.status != "overridden"
    if item.role != "compute" and item.condition not in ("", PARTS):
        return False  # ``if args.fp16_full_eval: model.half()``: of runs that ask for it
    return item.role in ("compute", "weights") and dtype_of(item) in other_halves(target)
