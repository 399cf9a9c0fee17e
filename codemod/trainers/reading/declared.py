"""Which regime the project itself runs, as far as its autocast regions and its trainers' settings say."""

from __future__ import annotations

from ...source.project import Project
from ...torch.autocast import autocasts, dtype_scenarios, is_float32_island, training_autocasts
from ...torch.dtypes import HALVES, MIXED, UNKNOWN, Dtype
from .declarations import scopes_of


def declared_regime(project: Project) -> str:
    """The one regime that all autocast regions (of training files first) and trainers agree on, else ``unknown``."""
    regimes = _of_regions(project) | {
        regime for scope in scopes_of(project) for regime, setting in scope.regimes.items() if setting is not None
    }
    return regimes.pop() if len(regimes) == 1 else "unknown"


def _of_regions(project: Project) -> set[str]:
    values = {
        scenario.value
        for item in training_autocasts(project) or autocasts(project)
        if not is_float32_island(project, item)
        for scenario in dtype_scenarios(project, item)
        if scenario.value != UNKNOWN
    }
    return {MIXED[value] if isinstance(value, Dtype) and value in HALVES else "unknown" for value in values}
