"""The autocast regions that a scaler's training step runs in, and what holds when each is entered."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..python.conditions import conditions_in
from ..python.functions import FunctionTarget, called_function
from ..python.names import FunctionNode, ModuleNames, Scope
from ..source.project import Project
from ..torch.autocast import (
    Autocast,
    autocasts,
    autocasts_in,
    dtype_scenarios,
    is_float32_island,
    runs_without_gradients,
)
from ..torch.dtypes import Dtype, Given, Scenario
from ..torch.scalers import Scaler
from .steps import calls_beside, function_scope, is_evaluation, may_be_autocast

LOOKS = ("private", "none-test")
"""Uses that only look at a scaler: a file with no others (a log of the scale) is no part of its step."""
MAX_CALL_STEPS = 3
MAX_REGIONS = 100
"""Regions of one scaler that are told apart; a file with more was not written by hand."""


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """An autocast region that a scaler's step runs in, and what it can compute in."""

    autocast: Autocast
    scenarios: tuple[Scenario, ...]

    @property
    def values(self) -> set[object]:
        return {scenario.value for scenario in self.scenarios}


def regions_of(project: Project, scaler: Scaler) -> Iterator[Region]:
    """The autocast regions of the training step that ``scaler`` serves: its functions first, else its files."""
    stepping = {scaler.module, *(use.module for use in scaler.uses if use.kind not in LOOKS)}
    in_order = sorted(stepping, key=lambda module: module.document.path)
    helping = [item for item in _through_helpers(project, scaler) if project.memo(_trains, item)]
    training = [item for module in in_order for item in project.memo(_training_in, module)] + helping
    functions = {function_scope(use.module, use.node) for use in scaler.uses_of("scale", "step", "called")}
    near = [item for item in training if function_scope(item.module, item.node) in functions]
    # Cut only here: what is left out must not decide which regions are the step's.
    for item in (near or _elsewhere(scaler, training, functions))[: MAX_REGIONS + 1]:
        yield Region(item, dtype_scenarios(project, item))


def _elsewhere(scaler: Scaler, training: Sequence[Autocast], functions: set[Scope]) -> Sequence[Autocast]:
    """The regions of a step whose own functions have none; of too many nobody can tell, so all of these."""
    if len(training) > MAX_REGIONS:
        return training
    elsewhere = [item for item in training if not is_evaluation(item)]
    others = [item for item in elsewhere if not functions or not _is_a_step_of_its_own(item)]
    return _reached(others, functions, scaler.modules) or others


def _training_in(project: Project, module: ModuleNames) -> list[Autocast]:
    entered = (item for item in autocasts_in(project, module) if item.form not in ("statement", "reference"))
    return [item for item in entered if project.memo(_trains, item)]


def _trains(project: Project, item: Autocast) -> bool:
    """Whether the region is part of a training step, as far as it says itself."""
    return not is_float32_island(project, item) and not runs_without_gradients(item)


def _is_a_step_of_its_own(item: Autocast) -> bool:
    """Whether the region's function runs a whole step, which the scaler has no part in."""
    in_function = isinstance(function_scope(item.module, item.node).node, FunctionNode)
    return in_function and calls_beside(item.module, item.node, "backward")


def _reached(training: Sequence[Autocast], functions: set[Scope], modules: Sequence[ModuleNames]) -> list[Autocast]:
    """The regions in functions that the scaler's functions call, by name, over a few steps."""
    names: set[str] = set()
    scopes = set(functions)
    for _ in range(MAX_CALL_STEPS):
        called = {
            name
            for module in modules
            for name, calls in module.calls_by_name.items()
            if any(function_scope(module, call) in scopes for call in calls)
        }
        if called <= names:
            break
        names |= called
        scopes |= {
            scope
            for module in modules
            for node, scope in module.scopes.items()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in called
        }
    return [item for item in training if getattr(function_scope(item.module, item.node).node, "name", "") in names]


def _through_helpers(project: Project, scaler: Scaler) -> list[Autocast]:
    """Autocasts made by the project's own helper functions that the scaler's files call for a context."""
    modules = scaler.modules
    helpers = (target for module in modules for target in project.memo(_helpers_for_contexts, module))
    nodes = {target.node for target in helpers if target.module not in modules}
    return [
        item
        for item in (autocasts(project) if nodes else ())
        if item.form not in ("statement", "reference") and not nodes.isdisjoint(item.module.ancestors(item.node))
    ]


def _helpers_for_contexts(project: Project, module: ModuleNames) -> list[FunctionTarget]:
    """The project's own functions whose name may be that of a context, as far as ``module`` calls them."""
    names = (name for name in module.calls_by_name if may_be_autocast(ast.Name(name)))
    targets = (called_function(project, module, call) for name in names for call in module.calls_by_name[name])
    return [target for target in targets if target is not None]


def bf16_givens(project: Project, region: Region, scenario: Scenario) -> tuple[Given, ...]:
    """Everything that holds when ``region`` runs in the dtype of ``scenario``."""
    autocast = region.autocast
    entry = entry_givens(project, region)
    if autocast.dtype_node is None or not isinstance(scenario.value, Dtype):
        return (*scenario.given, *entry)
    scope = autocast.module.scope_of(autocast.node)
    itself = Given(ast.unparse(autocast.dtype_node), (scenario.value,), True, autocast.dtype_node, scope)
    return (*(item for item in scenario.given if item.text != itself.text), itself, *entry)


def entry_givens(project: Project, region: Region) -> tuple[Given, ...]:
    """What holds when ``region`` is entered and switched on, whatever it computes in."""
    autocast = region.autocast
    conditions = conditions_in(project, autocast.module)
    given = list(conditions.path_given(autocast.node, function_scope(autocast.module, autocast.node)))
    if autocast.enabled_node is not None:
        given.extend(conditions.given(autocast.enabled_node, True))
    return (*given, *_given_by_table(autocast))


def _given_by_table(autocast: Autocast) -> tuple[Given, ...]:
    """``{"bf16": autocast(...), "fp16": autocast(...)}[args.precision]``: the key that picks this one."""
    module = autocast.module
    table = module.parents.get(autocast.node)
    lookup = module.parents.get(table) if isinstance(table, ast.Dict) else None
    if not isinstance(table, ast.Dict) or not isinstance(lookup, ast.Subscript) or autocast.node not in table.values:
        return ()
    key = table.keys[table.values.index(autocast.node)]
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return ()
    return (Given(ast.unparse(lookup.slice), (key.value,), True, lookup.slice, module.scope_of(lookup)),)
