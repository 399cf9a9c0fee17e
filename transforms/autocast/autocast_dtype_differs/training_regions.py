"""Which autocast regions belong to a training step that some run of the project reaches."""

from __future__ import annotations

import ast

from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.steps import calls_beside, entered, function_scope, is_evaluation, says_evaluation
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, is_float32_island, is_without_gradients, training_autocasts

BACKWARD = ("backward", "manual_backward")
STEPS = ("training_step", "train_step", "compute_loss")
"""Methods that a trainer calls for a training step, and that run no backward pass themselves."""
MAX_CALLERS = 2


def training_regions(project: Project) -> dict[ModuleNames, tuple[Autocast, ...]]:
    """The regions with a dtype, by file, in files that train; those that evaluate left out."""
    return project.fact(_training_regions)


def _training_regions(project: Project) -> dict[ModuleNames, tuple[Autocast, ...]]:
    found: dict[ModuleNames, tuple[Autocast, ...]] = {}
    for item in training_autocasts(project):
        on_cuda = item.dtype_node is not None and item.device in ("cuda", None)
        if on_cuda and not is_float32_island(project, item) and not is_evaluation(item):
            found[item.module] = (*found.get(item.module, ()), item)
    return found


def runs_in_training(project: Project, region: Autocast) -> bool:
    """Whether the region is part of a training step that something calls."""
    if is_evaluation(region):
        return False
    places = [region.node, *(item.block for item in entered(region))]
    return any(
        _is_in_step(project, region.module, node, MAX_CALLERS) and is_reached(project, region.module, node)
        for node in places
    )


def _is_in_step(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> bool:
    """Whether gradients are on, and the function of ``node``, or one that calls it, runs the backward pass."""
    scope = function_scope(module, node)
    if is_without_gradients(module, node) or says_evaluation(scope):
        return False
    if any(calls_beside(module, node, name) for name in BACKWARD) or getattr(scope.node, "name", "") in STEPS:
        return True
    if not hops or not isinstance(scope.node, FunctionNode):
        return False
    sites = callers_of(project, module, scope.node).sites
    return any(_is_in_step(project, site.module, site.call, hops - 1) for site in sites)
