"""The dtype that changes leave the weights of a model in, where it is a 16-bit one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..purpose.decided import CERTAIN, Decided, decided, of_machine
from ..purpose.given import is_check
from ..source.project import Project
from ..torch.dtypes import BF16, HALVES, Dtype
from .weight_changes import WeightChange


@dataclass(frozen=True, slots=True)
class WeightState:
    """Weights that are 16-bit after some change."""

    dtype: Dtype
    change: WeightChange
    decided: Decided
    adapted: bool = False


def half_after(project: Project, changes: Sequence[WeightChange], *, trained: bool = True) -> WeightState | None:
    """The 16-bit state that all changes together leave in runs that the project states; None for any other.

    ``trained``: none where the weights are frozen.
    """
    changes = [item for item in changes if trained or not item.is_freezing]
    found = [_after(project, changes, dtype) for dtype in (BF16, *(item for item in HALVES if item != BF16))]
    return next((item for item in found if item is not None and not item.decided.open), None)


def _after(project: Project, changes: Sequence[WeightChange], dtype: Dtype) -> WeightState | None:
    state, known, adapted, frozen = None, CERTAIN, False, False
    for change in changes:
        if known.rules_out(change.given) or _is_off(project, change, known, dtype):
            continue
        is_whole = state is not None and not state.change.part
        without = _without(project, change, known) if state is not None else None
        if without is not None and without.lines and not change.values:
            known = without  # a launch line leaves it out, and shows all the rest of that run
            continue
        thawed = change.is_adapter or (change.is_unfreezing and is_whole)
        freezes = change.is_freezing and _without(project, change, known) is None
        adapted, frozen = adapted or change.is_adapter, (frozen or freezes) and not thawed
        if change.is_copying:
            needed = decided(project, change.module, change.given, known)
            if state is None or needed is None or needed.open:
                return None
            state, known, frozen = WeightState(dtype, change, needed), needed, False
        if change.values and all(item.value is None for item in change.values):
            continue
        half = _half(project, change, dtype, known) if adapted or not change.is_of_adapters else None
        if half is None:
            if change.part:
                continue
            state = None
            if not change.values and change.given:
                return None
        else:
            state, known = WeightState(dtype, change, half), half
    if state is None or frozen:
        return None
    return WeightState(dtype, state.change, known, adapted)


def _is_off(project: Project, change: WeightChange, known: Decided, dtype: Dtype) -> bool:
    """Whether a change that leaves another dtype runs only with options that are off, or on other machines."""
    if any(item.value == dtype for item in change.values) or not change.given:
        return False
    if any(of_machine(project, change.module, item) is False for item in change.given):
        return True
    needed = decided(project, change.module, change.given, known)
    off = needed is not None and needed.open and not known.open
    return off and not (change.is_adapter and needed is not None and needed.by_default)


def _without(project: Project, change: WeightChange, known: Decided) -> Decided | None:
    """What holds in a run that the project states and that leaves a change out."""
    ways = (decided(project, change.module, (replace(item, equal=not item.equal),), known) for item in change.given)
    return next((item for item in ways if item is not None and not item.open), None)


def _half(project: Project, change: WeightChange, dtype: Dtype, known: Decided) -> Decided | None:
    """What must be set for a change to give this dtype."""
    values = (item for item in change.values if item.value == dtype)
    asked = [[each for each in item.given if not is_check(change.module, each.node)] for item in values]
    ways = [decided(project, change.module, (*change.given, *given), known) for given in asked]
    return min((item for item in ways if item is not None), key=lambda item: item.open, default=None)
