"""``unscale_`` of an optimizer that is unscaled or stepped already, straight above in the same pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.functions import called_function
from ....codemod.python.paths import calls_of, guard_facts, loop_names, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep

HIDING = ("escaped", "private", "bound-method", "method", "stored", "called", "kept")


def unscaled_twice(project: Project, step: ScalerStep) -> Iterator[Draft]:
    """Calls that raise in each pass that comes to them, whatever the batch."""
    module = step.module
    for call in step.of("unscale_"):
        before = [item for item in step.of("unscale_", "step") if _runs_before(step, item, call)]
        before = [item for item in before if not _is_renewed(project, step, item, call)]
        if not before or not is_reached(project, module, call):
            continue
        first = before[-1]
        is_step = first in step.of("step")
        said = "unscale_() is being called after step()" if is_step else "unscale_() has already been called"
        message = f"the gradients of this optimizer are unscaled a second time in one pass: RuntimeError, {said!r}"
        places = [module.place(first, "the step unscales them" if is_step else "they are unscaled here")]
        places.append(step.scaler.module.place(step.scaler.call, "the scaler is created here"))
        fix = None if is_step else _without(project, step, call)
        yield Draft.at(module, call, message, places, [fix] if fix is not None else [])


def _runs_before(step: ScalerStep, first: ast.Call, second: ast.Call) -> bool:
    """Whether a call of the same optimizer runs before another one in each pass in which that does."""
    module, optimizer = step.module, step.text_of_optimizer(second)
    same = step.text_of_optimizer(first) == optimizer and step.name_of_scaler(first) == step.name_of_scaler(second)
    above = position(first) < position(second) and loops(module, first) == loops(module, second)
    return bool(optimizer) and same and above and guard_facts(module, first) <= guard_facts(module, second)


def _is_renewed(project: Project, step: ScalerStep, first: ast.Call, second: ast.Call) -> bool:
    """Whether something between them may update the scaler, or bind the optimizer's or the scaler's name anew."""
    module, start, end = step.module, position(first), position(second)
    if any(start < position(use.node) < end and use.kind in ("update", *HIDING) for use in step.uses):
        return True
    updates = {use.call for use in step.scaler.uses_of("update")}
    calls = [call for call in calls_of(module, step.function) if start < position(call) < end]
    elsewhere = len(updates) > len(step.of("update")) and any(called_function(project, module, call) for call in calls)
    words = {node.id for call in (first, second) for node in ast.walk(call) if isinstance(node, ast.Name)}
    stores = (node for node in ast.walk(step.function) if isinstance(getattr(node, "ctx", None), ast.Store))
    stored = {ast.unparse(node).partition(".")[0] for node in stores if start < position(node) < end}
    own = [loop for loop in ast.walk(step.function) if isinstance(loop, ast.For | ast.AsyncFor)]
    bound = {name for loop in own if start < position(loop) < end for name in loop_names(loop)}
    return elsewhere or not words.isdisjoint(stored | bound)


def _without(project: Project, step: ScalerStep, call: ast.Call) -> Fix | None:
    statement = step.module.statement_of(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    why = SameResult("a second unscale_ before the update raises, and does nothing where the scaler is switched off")
    return proved(project, "once", "unscale once", [step.module.remove(statement)], why)
