"""Whether the steps behind a place scale their loss: float16 without that loses small gradients in silence."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from ...purpose.imports import imported_modules
from ...purpose.runs import starts_of
from ...purpose.training import training_modules
from ...python.arguments import receiver_of
from ...python.creations import Creation, creations_of
from ...python.names import FunctionNode, ModuleNames, names_of
from ...python.paths import exclusive, function_of
from ...python.scopes import last_name
from ...source.project import Project
from ...torch.scalers import scalers
from ...torch.unscaled_steps import names_scaling, scales_somehow
from ..reading.scopes import SettingScope

UNSCALED = "nothing is seen to scale the loss, which float16 needs: add a GradScaler to the training step first"
PREPARING = ("prepare", "prepare_optimizer", "setup", "setup_optimizers")
"""Methods of accelerate and Fabric that give an optimizer back which unscales its gradients."""
OPTIMIZERS, OTHERS = "torch.optim.", ("torch.optim.lr_scheduler.", "torch.optim.swa_utils.")


def would_be_unscaled(project: Project, scope: SettingScope, target: str) -> bool:
    """Whether float16 comes through a call that only chooses dtypes, and the programs' steps do not scale the loss."""
    if scope.framework.scales_loss or target != "fp16-mixed" or scope.kind != "call":
        return False
    document = next((item for item in project.python_documents(()) if item.path == scope.path), None)
    return document is not None and has_unscaled_step(project, names_of(project, document))


def raw_step(project: Project, modules: Iterable[ModuleNames]) -> str:
    """What an optimizer is that steps by itself although something else scales its gradients; "" for none."""
    for module in modules:
        for call in (*steps_beside_scaler(project, module), *steps_unprepared(project, module)):
            place = f"{module.path}:{module.document.span(call).row}"
            return f"{place} {ast.unparse(call)} steps without the scaler, also where float16 has overflowed"
    return ""


def is_stepped(project: Project, module: ModuleNames) -> bool:
    """Whether a program that reaches ``module`` steps an optimizer: where only gradients are timed, none are lost."""
    called = (call for item in starts_of(project, module) for call in item.calls_by_name.get("step", ()))
    return any(isinstance(call.func, ast.Attribute) for call in called)


def has_unscaled_step(project: Project, module: ModuleNames) -> bool:
    """Whether one of the programs that reach ``module`` runs ``backward`` on a loss that nothing scales."""
    return not all(_scales(project, item) for item in _stepping(project, module))


def is_unscaled_in(module: ModuleNames, region: ast.AST) -> bool:
    """Whether the function around a region runs ``loss.backward()`` there, and names nothing that scales a loss."""
    function = function_of(module, region)
    if not isinstance(function, FunctionNode):
        return False
    calls = (call for call in module.calls_inside.get((function, "backward"), ()) if not call.args)
    return any(not exclusive(module, call, region) for call in calls) and not names_scaling(function)


def _stepping(project: Project, module: ModuleNames) -> Iterator[ModuleNames]:
    """The files of the module's programs that call ``backward`` themselves, or for a module that leaves it to them."""
    trained = training_modules(project)
    near = (module,) if module in trained else (*starts_of(project, module), *imported_modules(project, module))
    return (item for item in near if item in trained and "backward" in item.calls_by_name)


def _scales(project: Project, module: ModuleNames) -> bool:
    return scales_somehow(project, module) or any(module in scaler.modules for scaler in scalers(project))


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
