"""Which regime the project itself runs, as far as its autocast regions say."""

from __future__ import annotations

from ..project import Project
from .autocast import autocasts, dtype_scenarios, is_float32_island, training_autocasts
from .dtypes import BF16, FP16, UNKNOWN, Dtype

SOURCE = "declared by the project itself"
REGIMES = {BF16: "bf16-mixed", FP16: "fp16-mixed"}


def declared_regime(project: Project) -> str:
    """``bf16-mixed`` or ``fp16-mixed`` when all autocast regions (of training files first) agree, else ``unknown``."""
    values = {
        scenario.value
        for item in training_autocasts(project) or autocasts(project)
        if not is_float32_island(project, item)
        for scenario in dtype_scenarios(project, item)
        if scenario.value != UNKNOWN
    }
    regimes = {REGIMES.get(value, "unknown") if isinstance(value, Dtype) else "unknown" for value in values}
    return regimes.pop() if len(regimes) == 1 else "unknown"
