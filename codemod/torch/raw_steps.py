"""Optimizers that step by themselves although something else scales the loss: float16 applies what overflowed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.arguments import receiver_of
from ..python.creations import Creation, creations_of
from ..python.names import ModuleNames
from ..python.paths import exclusive, function_of
from ..python.scopes import last_name
from ..source.project import Project
from .scalers import scalers

PREPARING = ("prepare", "prepare_optimizer", "setup", "setup_optimizers")
"""Methods of accelerate and Fabric that give an optimizer back which unscales its gradients."""
OPTIMIZERS, OTHERS = "torch.optim.", ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")


def steps_beside_scaler(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    """``optimizer.step()`` beside ``scaler.step(optimizer)``: it steps where the scaler skips a step."""
    for use in (use for scaler in scalers(project) for use in scaler.uses_of("step") if use.module is module):
        optimizer = ast.unparse(use.call.args[0]) if use.call is not None and use.call.args else ""
        for call in _steps_near(module, use.node):
            if ast.unparse(call.func) == f"{optimizer}.step" and not exclusive(module, call, use.node):
                yield call


def steps_unprepared(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    """``optimizer.step()`` behind ``accelerator.backward(loss)``, of an optimizer that nothing has prepared."""
    for backward in module.calls_by_name.get("backward", ()):
        given = len(backward.args) == 1 and isinstance(backward.func, ast.Attribute)
        for call in _steps_near(module, backward) if given else ():
            if exclusive(module, call, backward):
                continue
            made = creations_of(project, module, receiver_of(call) or call.func)
            if made and all(map(_is_of_torch, made)):
                yield call


def _steps_near(module: ModuleNames, node: ast.AST) -> Iterator[ast.Call]:
    calls = module.calls_inside.get((function_of(module, node), "step"), ())
    return (call for call in calls if isinstance(call.func, ast.Attribute) and not call.args)


def _is_of_torch(made: Creation) -> bool:
    name = made.module.qualified(made.call.func) or ""
    is_optimizer = name.startswith(OPTIMIZERS) and not name.startswith(OTHERS)
    return is_optimizer and not any(last_name(call.func) in PREPARING for call in made.through)
