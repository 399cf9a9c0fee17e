"""In which precision a scaler's training step runs: always bf16, never, decided at run time, or unknown.

Gradients follow the compute dtype, so the autocast regions around a scaler's uses decide what it does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..project import Project
from .autocast import Autocast, autocasts, dtype_scenarios, is_float32_island, runs_without_gradients
from .dtypes import BF16, FP16, UNKNOWN, Dtype, Given, Scenario, as_dtype
from .functions import called_function
from .names import ModuleNames, Scope
from .scalers import Scaler
from .values import DtypeValues, values_of

HALF_WORDS = ("fp16", "float16", "half", "bf16", "bfloat16", "dtype", "precision")
EVALUATION_NAMES = ("eval", "valid", "test", "infer", "predict", "sample", "generate")


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """An autocast region that a scaler's step runs in, and what it can compute in."""

    autocast: Autocast
    scenarios: tuple[Scenario, ...]

    @property
    def values(self) -> set[object]:
        return {scenario.value for scenario in self.scenarios}


@dataclass(frozen=True, slots=True)
class Regime:
    """The verdict on one scaler."""

    verdict: str
    """``always-bf16``, ``never-bf16``, ``run-time`` or ``unknown``."""
    regions: tuple[Region, ...]
    active: bool | None = None
    """For ``always-bf16`` and ``run-time``: whether the scaler is switched on under bf16. None: it cannot be told,
    its condition speaks of precision."""
    own_condition: ast.expr | None = None
    """The test that makes the scaler *because* of bf16 (``enabled=dtype == "bfloat16"``), when there is one."""


def regime_of(project: Project, scaler: Scaler) -> Regime:
    """What ``scaler`` is used with, and whether it is active when that is bf16."""
    if scales_float8(scaler):
        return Regime("unknown", ())
    own = _own_bf16_condition(project, scaler)
    regions = tuple(regions_of(project, scaler))
    if own is not None:
        return Regime("run-time", regions, True, own)
    values = {value for region in regions for value in region.values}
    if BF16 not in values:
        return Regime("unknown" if not values or UNKNOWN in values else "never-bf16", regions)
    if values == {BF16}:
        return Regime("always-bf16", regions, active_under_bf16(project, scaler, regions))
    if any(region.values == {FP16} for region in regions):
        return Regime("unknown", regions)
    return Regime("run-time", regions, active_under_bf16(project, scaler, regions))


def scales_float8(scaler: Scaler) -> bool:
    """Whether the scaler serves MS-AMP, whose float8 gradients need one although autocast computes in bf16."""
    imports = [
        item for group in scaler.module.module_scope.bindings.values() for item in group if item.kind == "import"
    ]
    return any((item.qualified or "").partition(".")[0] == "msamp" for item in imports)


def regions_of(project: Project, scaler: Scaler) -> Iterator[Region]:
    """The autocast regions of the training step that ``scaler`` serves: its functions first, else its files."""
    inside = [
        item
        for item in autocasts(project)
        if item.module in scaler.modules and item.form not in ("statement", "reference")
    ]
    inside += list(_through_helpers(project, scaler))
    training = [
        item
        for item in inside
        if not is_float32_island(project, item) and not runs_without_gradients(item) and not _in_evaluation(item)
    ]
    functions = {_function(use.module, use.node) for use in scaler.uses_of("scale", "step", "called")}
    near = [item for item in training if _function(item.module, item.node) in functions]
    for item in near or training:
        yield Region(item, dtype_scenarios(project, item))


def _function(module: ModuleNames, node: ast.AST) -> Scope:
    return module.scope_of(node).function


def _in_evaluation(item: Autocast) -> bool:
    scope = _function(item.module, item.node)
    name = getattr(scope.node, "name", "").lower()
    return any(name.startswith(word) or f"_{word}" in name for word in EVALUATION_NAMES) and "train" not in name


def _through_helpers(project: Project, scaler: Scaler) -> Iterator[Autocast]:
    """Autocasts made by the project's own helper functions that the scaler's files enter with ``with``."""
    for module in scaler.modules:
        for node in module.nodes:
            if not isinstance(node, ast.withitem) or not isinstance(node.context_expr, ast.Call):
                continue
            target = called_function(project, module, node.context_expr)
            if target is None or target.module in scaler.modules:
                continue
            for item in autocasts(project):
                if item.module is target.module and target.node in item.module.ancestors(item.node):
                    yield item


def active_under_bf16(project: Project, scaler: Scaler, regions: Sequence[Region]) -> bool | None:
    """Whether the scaler works while a region computes in bf16; None when its conditions speak of precision."""
    if any(isinstance(parent, ast.match_case) for parent in scaler.module.ancestors(scaler.call)):
        return None
    outcomes: set[bool | None] = set()
    for region in regions:
        for scenario in region.scenarios:
            if scenario.value == BF16:
                outcomes.add(_active(project, scaler, bf16_givens(project, region, scenario)))
    if True in outcomes:
        return True
    return None if None in outcomes else False


def bf16_givens(project: Project, region: Region, scenario: Scenario) -> tuple[Given, ...]:
    """Everything that holds when ``region`` runs in the dtype of ``scenario``."""
    autocast = region.autocast
    values = values_of(project, autocast.module)
    scope = autocast.module.scope_of(autocast.node)
    given = list(scenario.given)
    if autocast.dtype_node is not None and isinstance(scenario.value, Dtype):
        given.append(Given(ast.unparse(autocast.dtype_node), (scenario.value,), True, autocast.dtype_node, scope))
    given.extend(values.path_given(autocast.node, scope))
    if autocast.enabled_node is not None:
        given.extend(values.given(autocast.enabled_node, True))
    return tuple(given)


def _active(project: Project, scaler: Scaler, given: Sequence[Given]) -> bool | None:
    outcomes = [_holds(project, module, test, holds, given) for module, test, holds in conditions_of(project, scaler)]
    if False in outcomes or _no_use_reached(project, scaler, given):
        return False
    return None if None in outcomes else True


def conditions_of(project: Project, scaler: Scaler) -> Iterator[tuple[ModuleNames, ast.expr, bool]]:
    """The tests that decide whether the scaler is made and switched on."""
    module = scaler.module
    values = values_of(project, module)
    for test, holds in values.path_tests(scaler.call, module.scope_of(scaler.call)):
        yield module, test, holds
    for parent in module.ancestors(scaler.call):
        if isinstance(parent, ast.BoolOp) and isinstance(parent.op, ast.And):
            yield module, parent.values[0], True
        if isinstance(parent, ast.stmt):
            break
    if scaler.enabled_node is not None:
        yield module, scaler.enabled_node, True


def _no_use_reached(project: Project, scaler: Scaler, given: Sequence[Given]) -> bool:
    """Whether every ``scale(loss)`` stands behind a test that fails (or speaks of precision) under ``given``."""
    uses = scaler.uses_of("scale", "called")
    return bool(uses) and all(
        any(
            _holds(project, use.module, test, holds, given) is not True
            for test, holds in values_of(project, use.module).path_tests(use.node, use.module.scope_of(use.node))
        )
        for use in uses
    )


def _holds(project: Project, module: ModuleNames, test: ast.expr, holds: bool, given: Sequence[Given]) -> bool | None:
    """True: nothing in the way. False: certainly not. None: undecided, and the test speaks of precision."""
    values = values_of(project, module)
    decided = values.decide(test, given)
    if decided is not None:
        return decided is holds
    return None if speaks_of_precision(values, test) else True


def speaks_of_precision(values: DtypeValues, test: ast.expr, depth: int = 0) -> bool:
    """Whether a test names a 16-bit type or compares a dtype, here or in the value of a name it reads.

    A plain switch (``args.amp``, ``cfg.mixed_precision``) does not: it turns mixed precision on, not fp16.
    """
    for node in ast.walk(test):
        text = _word_of(node)
        if any(word in text for word in HALF_WORDS[:5]) or text.endswith("dtype"):
            return True
        if isinstance(node, ast.Compare) and any("precision" in _word_of(child) for child in ast.walk(node)):
            return True
        inner = values.assigned_values(node) if depth < 3 and isinstance(node, ast.Name | ast.Attribute) else []
        if any(speaks_of_precision(values, value, depth + 1) for value in inner):
            return True
    return False


def _word_of(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id.lower()
    if isinstance(node, ast.Attribute):
        return node.attr.lower()
    return node.value.lower() if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _own_bf16_condition(project: Project, scaler: Scaler) -> ast.expr | None:
    """The test that switches the scaler on for bf16: ``elif precision == "bf16"``, or an inverted ``enabled``."""
    values = values_of(project, scaler.module)
    for _, test, holds in conditions_of(project, scaler):
        for item in values.given(test, holds):
            named = {as_dtype(value) for value in item.values}
            switch = named == {True} and as_dtype(item.text.rpartition(".")[2]) == BF16
            if item.equal and (named == {BF16} or switch):
                return test
    return None
