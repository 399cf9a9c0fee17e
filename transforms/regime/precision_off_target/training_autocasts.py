"""Which autocast regions a training run enters, and how each says its dtype: by a literal, a setting, or not at all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.purpose.entered import regions_around
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.regions import Region, entry_givens
from ....codemod.purpose.steps import alternatives, carries_nothing_back, function_scope, is_crowded, says_evaluation
from ....codemod.purpose.training import reached_modules, stepping_modules, training_modules
from ....codemod.purpose.words import Purpose
from ....codemod.python.names import ModuleNames
from ....codemod.python.scopes import Scope
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.torch.autocast import (
    Autocast,
    autocasts,
    dtype_scenarios,
    is_float32_island,
)
from ....codemod.torch.dtypes import FP16, Constant, Dtype, Scenario, as_dtype
from ....codemod.torch.scalers import scalers
from ....codemod.trainers.reading.knobs import Knob, knobs_of
from ....codemod.trainers.reading.run_code import is_used
from .called_by_inference import is_for_inference
from .losses_of_models import computes_scaled_loss

FORMS = ("with", "decorator", "value", "partial")
ARGUMENTS = {None, "device_type", "dtype", "enabled", "cache_enabled"}


@dataclass(frozen=True, slots=True, eq=False)
class TrainingRegion:
    """An autocast region of a training run, and what it can compute in."""

    autocast: Autocast
    scenarios: tuple[Scenario, ...]
    is_alternative: bool
    """One of several of another dtype, among which the code picks: its own dtype is what it is for."""
    knobs: tuple[Knob, ...]
    """The settings that pick the dtype, or pick this region."""

    @property
    def module(self) -> ModuleNames:
        return self.autocast.module

    @property
    def values(self) -> set[Constant]:
        return {scenario.value for scenario in self.scenarios}

    @property
    def dtype(self) -> Dtype | None:
        """What it certainly computes in."""
        only = next(iter(self.values)) if len(self.values) == 1 else None
        return only if isinstance(only, Dtype) else None


@fact
def training_regions(project: Project) -> tuple[TrainingRegion, ...]:
    """The regions that training steps, and evaluations in between, compute in; float32 islands left out."""
    trained = {*training_modules(project), *stepping_modules(project)}
    trained |= {item for scaler in scalers(project) for item in scaler.modules}
    trained = {module for module in trained if not purpose_of(module.document.path).is_foreign}
    return tuple(_described(project, item) for item in _entered(project, trained))


def _entered(project: Project, trained: set[ModuleNames]) -> Iterator[Autocast]:
    for item in autocasts(project):
        if not _is_plain(item) or is_float32_island(project, item):
            continue
        if carries_nothing_back(item) and is_for_inference(project, item.module, item.node):
            continue
        if item.module in trained:
            # An explicit dtype inside another region is chosen for what stands in it.
            if item.dtype_node is None or not any(True for _ in regions_around(project, item.module, item.node)):
                yield item
        elif (
            (item.dtype_node is None and _is_model_code(project, item))
            or _is_called_by(project, item, trained)
            or (_is_model_code(project, item) and computes_scaled_loss(project, item))
        ):
            yield item


def _is_called_by(project: Project, item: Autocast, trained: set[ModuleNames]) -> bool:
    """Whether the region is in a function for evaluation in another file, which a training file uses in between.

    Or in a method: ``self.fid.score(batches)``.
    """
    scope = function_scope(item.module, item.node)
    is_method = isinstance(scope.parent, Scope) and isinstance(scope.parent.node, ast.ClassDef)
    if is_method:
        name = getattr(scope.node, "name", "")
        trained = {module for module in trained if name in module.attribute_loads}
    elif scope.parent is not item.module.module_scope:
        return False
    is_near = item.module in reached_modules(project) or purpose_of(item.module.path) is Purpose.EVALUATION
    if not is_near:
        return False
    path, row = item.module.path, item.node.lineno
    return _evaluates(item) and any(is_used(project, module.path, path, row) for module in trained)


def fixed_in_model_code(project: Project) -> Iterator[Autocast]:
    """Regions in code that training files import whose 16-bit dtype is written down: chosen for what stands there."""
    steps = [item.autocast for item in training_regions(project)]
    losses = {item for item in steps if computes_scaled_loss(project, item)}
    trained = {item.module for item in steps if item not in losses} | set(training_modules(project))
    for item in autocasts(project):
        if not _is_plain(item) or item.dtype_node is None or item in losses:
            continue
        if item.module not in trained and not is_float32_island(project, item) and _is_model_code(project, item):
            yield item


def _is_plain(item: Autocast) -> bool:
    """Whether the region is entered somewhere, not on the CPU, with arguments that autocast has."""
    if item.form not in FORMS or item.device == "cpu" or not item.understood:
        return False
    return item.call is None or {keyword.arg for keyword in item.call.keywords} <= ARGUMENTS


def _is_model_code(project: Project, item: Autocast) -> bool:
    """Whether the region is entered by code that training files import, as far as that can be told."""
    return item.module in reached_modules(project) and not _evaluates(item)


def _evaluates(item: Autocast) -> bool:
    """In a file that does not train itself: whether the region serves inference."""
    scope = function_scope(item.module, item.node)
    if isinstance(scope.node, ast.Module) or says_evaluation(scope):
        return not _decorates(item)
    return carries_nothing_back(item)


def _decorates(item: Autocast) -> bool:
    """A decorator is evaluated where its function is defined, and entered where that is called."""
    holder = next((parent for parent in item.module.ancestors(item.node) if isinstance(parent, ast.stmt)), None)
    if not isinstance(holder, ast.FunctionDef | ast.AsyncFunctionDef) or item.form != "decorator":
        return False
    return not says_evaluation(item.module.scopes[holder])


def _described(project: Project, item: Autocast) -> TrainingRegion:
    scenarios = dtype_scenarios(project, item)
    alternative = _is_alternative(project, item, {scenario.value for scenario in scenarios})
    chosen = scenarios
    if alternative:
        regions = (item, *alternatives(project, item))
        chosen = tuple(scenario for region in regions for scenario in _entered_with(project, region))
    return TrainingRegion(item, scenarios, alternative, knobs_of(project, item.module, chosen, item.dtype_node))


def _entered_with(project: Project, item: Autocast) -> tuple[Scenario, ...]:
    scenarios = dtype_scenarios(project, item)
    given = entry_givens(project, Region(item, scenarios))
    return tuple(scenario.under(*given) for scenario in scenarios)


def _is_alternative(project: Project, item: Autocast, values: set[Constant]) -> bool:
    """Whether the code enters another region of another dtype instead, or this one for one precision only."""
    if is_crowded(project, item):
        return True
    if any(
        {found.value for found in dtype_scenarios(project, other)} != values for other in alternatives(project, item)
    ):
        return True
    for given in entry_givens(project, Region(item, (Scenario(FP16),))):
        if given.equal and any(isinstance(as_dtype(value), Dtype) for value in given.values):
            return True
    return False
