"""``accelerator.backward(scaler.scale(loss))`` in float16: accelerate scales once more, and one scale stays.

``Accelerator.backward`` scales by a scaler of its own, by which only what ``prepare`` gives unscales in its step
(accelerate 1.15.0). ``scaler.step`` of that unscales by both; a plain ``step`` of it, or ``scaler.step`` of an
optimizer that was not prepared, by one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of, receiver_of
from ....codemod.python.creations import creations_of
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.paths import exclusive, position
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep
from ..engines import engine_of, float16_of_accelerate
from ..passes import calls_named

MESSAGE = (
    "the loss is scaled twice, by this scaler and by accelerate, and the step divides by one of the scales: the "
    "gradients are 65536 times too large at the start"
)
UNSCALING = ("unscale_", "get_scale", "private", "bound-method", "kept")


def scaled_twice(project: Project, each: ScalerStep) -> Iterator[Draft]:
    """Where a stated run computes in float16, and each step that follows unscales by one of the two scalers."""
    if each.of(*UNSCALING):
        return
    for scale in each.of("scale"):
        backward = _accelerated(each.module, scale)
        stated = float16_of_accelerate(project, each.module, backward) if backward is not None else None
        if backward is None or stated is None or not is_reached(project, each.module, scale):
            continue
        later = [call for call in calls_named(each, "step") if position(call) > position(scale)]
        steps = [call for call in later if not exclusive(each.module, call, scale) and _is_of_optimizer(each, call)]
        if steps and all(_unscales_once(project, each, call) for call in steps):
            places = (each.module.place(steps[0], "only one of the scales is divided out here"), stated)
            yield Draft.at(each.module, scale, MESSAGE, places)


def scaled_for_engine(project: Project, each: ScalerStep) -> Iterator[Draft]:
    """``engine.backward(scaler.scale(loss))`` of DeepSpeed, whose step divides by no scale but its own."""
    module, enabled = each.module, each.scaler.enabled_node
    always = enabled is None or (isinstance(enabled, ast.Constant) and enabled.value is True)
    if each.scaler.uses_of(*UNSCALING, "step") or not always:
        return
    engines = {engine_of(module, made): made for made in module.calls_by_name.get("initialize", ())}
    for scale in each.of("scale"):
        backward = _accelerated(module, scale)
        made = engines.get(owner_of(backward)) if backward is not None else None
        if made is not None and is_reached(project, module, scale):
            message = (
                "DeepSpeed's engine scales a loss itself where it has to, and its step divides by no other scale: the "
                "gradients are 65536 times too large at the start"
            )
            places = (
                module.place(made, "DeepSpeed makes the engine here"),
                each.scaler.module.place(each.scaler.call, "the scaler"),
            )
            yield Draft.at(module, scale, message, places)


def _accelerated(module: ModuleNames, scale: ast.Call) -> ast.Call | None:
    """``accelerator.backward(...)`` around a call, or of the variable that keeps what it gives."""
    outer, statement = module.parents[scale], module.statement_of(scale)
    if isinstance(outer, ast.Call) and scale in outer.args:
        return outer if last_name(outer.func) == "backward" else None
    kept = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is scale else None
    name = kept.id if isinstance(kept, ast.Name) else None
    calls = module.calls_by_name.get("backward", ()) if name is not None else ()
    for call in calls:
        given = call.args[0] if call.args else None
        if isinstance(given, ast.Name) and given.id == name and module.scope_of(call) is module.scope_of(scale):
            return call
    return None


def _is_of_optimizer(each: ScalerStep, call: ast.Call) -> bool:
    return call in each.of("step") or "opt" in last_name(receiver_of(call) or call.func).lower()


def _unscales_once(project: Project, each: ScalerStep, call: ast.Call) -> bool:
    """Whether a step of what was prepared is a plain one, or the scaler steps what was not."""
    by_hand = call in each.of("step")
    optimizer = each.optimizer(call) if by_hand else receiver_of(call)
    made = creations_of(project, each.module, optimizer) if optimizer is not None else ()
    prepared = {any(last_name(item.func) == "prepare" for item in way.through) for way in made}
    return prepared == {not by_hand}
