"""The autocast regions that a scaler's training step runs in, and what holds when each is entered."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..python.conditions import conditions_in
from ..python.functions import FunctionTarget, called_function
from ..python.keywords import key_of
from ..python.names import FunctionNode, ModuleNames, Scope
from ..source.project import Project
from ..torch.autocast import (
    Autocast,
    autocasts,
    dtype_scenarios,
    is_float32_island,
    runs_without_gradients,
)
from ..torch.dtype_values import constants_of
from ..torch.dtypes import Dtype, Scenario, TextCondition
from ..torch.entering_calls import sites_of
from ..torch.scalers import Scaler
from .steps import calls_beside, function_scope, is_evaluation, is_in_context, may_be_autocast

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
    functions = {function_scope(use.module, use.node) for use in scaler.uses_of("scale", "step", "called")}
    helpers = _through_helpers(project, scaler)
    by_function = project.fact(_by_function)
    placed = sorted((each for scope in functions for each in by_function.get(scope, ())), key=lambda each: each[0])
    near = [item for _, item in placed if item.module in stepping and project.memo(_trains, item)]
    near += [
        item for item in helpers if function_scope(item.module, item.node) in functions and project.memo(_trains, item)
    ]
    # Cut only here: what is left out must not decide which regions are the step's.
    found = near or _elsewhere(scaler, _training(project, stepping, helpers), functions)
    for item in (found or _in_models(project, functions))[: MAX_REGIONS + 1]:
        yield Region(item, dtype_scenarios(project, item))


def _by_function(project: Project) -> dict[Scope, list[tuple[int, Autocast]]]:
    """The regions of each function, with their places among all of the project."""
    found: dict[Scope, list[tuple[int, Autocast]]] = {}
    for place, item in enumerate(autocasts(project)):
        if item.form not in ("statement", "reference"):
            found.setdefault(function_scope(item.module, item.node), []).append((place, item))
    return found


def _training(project: Project, stepping: set[ModuleNames], helpers: Sequence[Autocast]) -> list[Autocast]:
    """The regions of some files that may be those of a training step, and those that helpers make."""
    inside = [
        item for item in autocasts(project) if item.module in stepping and item.form not in ("statement", "reference")
    ]
    return [item for item in (*inside, *helpers) if project.memo(_trains, item)]


def _elsewhere(scaler: Scaler, training: Sequence[Autocast], functions: set[Scope]) -> Sequence[Autocast]:
    """The regions of a step whose own functions have none; of too many nobody can tell, so all of these."""
    if len(training) > MAX_REGIONS:
        return training
    elsewhere = [item for item in training if not is_evaluation(item)]
    others = [item for item in elsewhere if not functions or not _is_a_step_of_its_own(item)]
    return _reached(others, functions, scaler.modules) or others


def _in_models(project: Project, functions: set[Scope]) -> list[Autocast]:
    """The regions in ``forward`` of the models that a step calls, in no context that may be autocast itself."""
    found = []
    for item in autocasts(project):
        function = function_scope(item.module, item.node).node
        if isinstance(function, FunctionNode) and function.name == "forward" and project.memo(_trains, item):
            sites = [site for site in sites_of(project, item.module, function) if function_scope(*site) in functions]
            found += [item] if sites and not any(is_in_context(*site) for site in sites) else []
    return found


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
    called = (target for module in scaler.modules for target in project.memo(_contexts_called, module))
    nodes = {target.node for target in called if target.module not in scaler.modules}
    return [
        item
        for item in (autocasts(project) if nodes else ())
        if item.form not in ("statement", "reference") and not nodes.isdisjoint(item.module.ancestors(item.node))
    ]


def _contexts_called(project: Project, module: ModuleNames) -> list[FunctionTarget]:
    """The project's own functions that a file calls by a name that speaks of autocast."""
    named = (calls for name, calls in module.calls_by_name.items() if may_be_autocast(ast.Name(name)))
    targets = (called_function(project, module, call) for calls in named for call in calls)
    return [target for target in targets if target is not None]


def bf16_givens(project: Project, region: Region, scenario: Scenario) -> tuple[TextCondition, ...]:
    """Everything that holds when ``region`` runs in the dtype of ``scenario``."""
    autocast = region.autocast
    entry = entry_givens(project, region)
    if autocast.dtype_node is None or not isinstance(scenario.value, Dtype):
        return (*scenario.given, *entry)
    scope, node = autocast.module.scope_of(autocast.node), autocast.dtype_node
    if isinstance(node, ast.BoolOp):
        node, *others = node.values
        if any(scenario.value in constants_of(project, autocast.module, other) for other in others):
            return (*scenario.given, *entry)
    itself = TextCondition(ast.unparse(node), (scenario.value,), True, node, scope)
    return (*(item for item in scenario.given if item.text != itself.text), itself, *entry)


def entry_givens(project: Project, region: Region) -> tuple[TextCondition, ...]:
    """What holds when ``region`` is entered and switched on, whatever it computes in."""
    autocast = region.autocast
    conditions = conditions_in(project, autocast.module)
    given = list(conditions.path_given(autocast.node))
    if autocast.enabled_node is not None:
        given.extend(conditions.given(autocast.enabled_node, True))
    return (*given, *_given_by_table(autocast))


def _given_by_table(autocast: Autocast) -> tuple[TextCondition, ...]:
    """``{"bf16": autocast(...), "fp16": autocast(...)}[args.precision]``: the key that picks this one."""
    module = autocast.module
    table = module.parents.get(autocast.node)
    lookup = module.parents.get(table) if isinstance(table, ast.Dict) else None
    key = key_of(table, autocast.node)
    if key is None or not isinstance(lookup, ast.Subscript):
        return ()
    return (TextCondition(ast.unparse(lookup.slice), (key,), True, lookup.slice, module.scope_of(lookup)),)
