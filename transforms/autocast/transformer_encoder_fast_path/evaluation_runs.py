"""Autocast regions that evaluate (no gradients, ``eval()``) on a device that may be another one than a CUDA GPU."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from ....codemod.purpose.steps import entered
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import function_of
from ....codemod.python.scopes import is_docstring
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts, dtype_scenarios, is_float32_island, is_without_gradients
from ....codemod.torch.device_tests import asks_for_device, depends_on_device
from ....codemod.torch.devices import OPEN, devices_of
from ....codemod.torch.dtypes import BF16, FP16
from .fast_path_runs import OFF_CUDA, FastPathRun

MAX_HOPS = 2


def autocast_runs(project: Project) -> Iterator[FastPathRun]:
    """The first statement of every function that evaluates under autocast off CUDA."""
    seen: set[ast.AST] = set()
    for item in autocasts(project):
        if item.device not in (None, *OFF_CUDA) or not _is_half(project, item):
            continue
        for entry in _entries(item):
            anchor = _outermost(item.module, entry)
            function = function_of(item.module, anchor)
            if function not in seen and _evaluates(project, item.module, entry, MAX_HOPS):
                seen.add(function)
                find = partial(_devices, project, item)
                yield FastPathRun(item.module, anchor, item.node, "autocast", find, (), by_hand=True)


def _entries(item: Autocast) -> list[ast.AST]:
    """What runs under the region: the contexts that enter it; a decorated body."""
    parent = item.module.parents[item.node]
    if item.form == "decorator" and isinstance(parent, FunctionNode):
        return [next((child for child in parent.body if not is_docstring(child)), parent.body[0])]
    return [found.context for found in entered(item)]


def _is_half(project: Project, item: Autocast) -> bool:
    if is_float32_island(project, item):
        return False
    return any(scenario.value in (BF16, FP16) for scenario in dtype_scenarios(project, item))


def _devices(project: Project, item: Autocast) -> frozenset[str]:
    """The devices off CUDA that the region can be for; empty where none is known, or a test keeps it to CUDA."""
    if item.device is not None:
        kinds = {item.device}
    elif item.device_node is None:
        return frozenset()
    else:
        kinds = {value.kind for value in devices_of(project, item.module, item.device_node)}
    named, chosen = kinds & {*OFF_CUDA}, kinds & {OPEN, "auto"}
    if not named and ("cuda" in kinds or not chosen):
        return frozenset()
    switch = item.enabled_node
    if switch is not None and asks_for_device(project, item.module, switch):
        return frozenset()
    if item.device is None and depends_on_device(project, item.module, item.node):
        return frozenset()
    return frozenset(named if named == kinds - {""} else {"any"})


def _evaluates(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> bool:
    """Whether gradients are off where ``node`` runs: around it, inside its block, or around a call of its function."""
    if is_without_gradients(module, node) or _switched_off_inside(module, node):
        return True
    function = function_of(module, node)
    if not hops or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    sites = callers_of(project, module, function).sites
    return any(_evaluates(project, site.module, site.call, hops - 1) for site in sites)


def _switched_off_inside(module: ModuleNames, node: ast.AST) -> bool:
    """``with autocast(...): with torch.no_grad(): ...``."""
    block = module.statement_of(node)
    if not isinstance(block, ast.With | ast.AsyncWith):
        return False
    return any(
        is_without_gradients(module, item.context_expr)
        for inner in block.body
        if isinstance(inner, ast.With | ast.AsyncWith)
        for item in inner.items
    )


def _outermost(module: ModuleNames, node: ast.AST) -> ast.stmt:
    """The statement of the function's own block (of the module's, outside functions) that holds ``node``."""
    statement = module.statement_of(node)
    for parent in module.ancestors(node):
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module):
            return statement
        if isinstance(parent, ast.stmt):
            statement = parent
    return statement
