"""Gradients that a plain backward pass adds to scaled ones: the step divides the sum by the scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.decided import stated
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of
from ....codemod.python.functions import called_function
from ....codemod.python.names import attribute_chain, last_name
from ....codemod.python.paths import calls_of, guard_facts, guards, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.autocast import is_without_gradients
from ....codemod.torch.clipping import calls_within
from ....codemod.torch.made_with_gradients import differentiated
from ....codemod.torch.scaler_steps import ScalerStep
from ....codemod.torch.trained_modules import is_trained
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.numerals import NUMERALS
from ....codemod.trainers.reading.source import as_number
from ..passes import calls_named, leads_to, leads_to_backward, plain_backwards

HIDING = ("escaped", "private", "bound-method", "method", "stored", "get_scale", "argument", "called")
"""Uses of a scaler behind which somebody else may scale, unscale or step."""
ENDING = ("zero_", "unscale", "step", "clip_grad")
"""Parts of the names of what sets gradients to zero, unscales them, or uses them up."""
MAX_NAMES = 20
KEPT = (
    "the scaler steps in each pass and the gradients are kept: what it has unscaled is added to scaled gradients and "
    "divided once more, so that nothing is accumulated"
)


def added_gradients(project: Project, each: ScalerStep) -> Iterator[Draft]:
    """``adversarial.backward()`` between ``scaler.scale(loss).backward()`` and ``scaler.step``, for the same model."""
    steps = each.of("step")
    plain = plain_backwards(each) if steps and each.of("scale") else []
    if not plain or not _is_alone(project, each):
        return
    for call in plain:
        scale = next((item for item in each.of("scale") if _add_up(project, each, item, call)), None)
        step = next((item for item in steps if leads_to(each, call, item)), None)
        if scale is not None and step is not None and is_reached(project, each.module, call):
            yield _draft(each, call, scale, step)


def kept_gradients(project: Project, each: ScalerStep) -> Iterator[Draft]:
    """A step in each micro-batch beside ``if (i + 1) % 4 == 0: optimizer.zero_grad()``: what is unscaled stays."""
    module, steps, scales = each.module, each.of("step"), each.of("scale")
    zeros = calls_named(each, "zero_grad")
    if not len(steps) == len(scales) == 1 or not zeros or each.of("unscale_") or not _is_alone(project, each):
        return
    scale, step = scales[0], steps[0]
    stays = loops(module, scale) == loops(module, step) != () and guard_facts(module, scale) == guard_facts(
        module, step
    )
    others = [call for call in calls_of(module, each.function) if call not in (*zeros, *steps)]
    inside = set(loops(module, step)[:1])
    ended = any(_may_end(project, each, call) for call in others if inside & {*module.ancestors(call)})
    if not stays or ended or module.attribute_stores.get("grad") or not is_reached(project, module, step):
        return
    if all(_runs_sometimes(project, each, call, step) for call in zeros if inside & {*module.ancestors(call)}):
        yield Draft.at(
            module, step, KEPT, (module.place(zeros[-1], "gradients are set to zero here, not in each pass"),)
        )


def _runs_sometimes(project: Project, each: ScalerStep, zero: ast.Call, step: ast.Call) -> bool:
    """Whether a call runs in one of several passes, by a test that the step does not wait for."""
    module, shared = each.module, {guard.test for guard in guards(each.module, step)}
    tests = [guard.test for guard in guards(module, zero) if guard.test not in shared]
    every = [
        item.right
        for test in tests
        for item in ast.walk(test)
        if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mod)
    ]
    given = [source for item in every for source in stated(sources(project, module, item, NUMERALS))]
    return loops(module, zero) == loops(module, step) and any((as_number(each.value) or 1) > 1 for each in given)


def _draft(each: ScalerStep, call: ast.Call, scale: ast.Call, step: ast.Call) -> Draft:
    module = each.module
    message = (
        "this loss is not scaled, and its gradients are added to scaled ones: the scaler divides the sum by the loss "
        "scale, so they count 65536 times too little at the start"
    )
    evidence = (
        module.place(scale, "this loss is scaled"),
        module.place(step, "the scaler steps with the sum"),
        each.scaler.module.place(each.scaler.call, "the scaler"),
    )
    return Draft.at(module, call, message, evidence)


def _is_alone(project: Project, each: ScalerStep) -> bool:
    """Whether all that steps, scales or runs backward in the function is seen, for one optimizer."""
    optimizers = {each.text_of_optimizer(step) for step in each.of("step")}
    others = {owner_of(call) for call in calls_named(each, "step") if call not in each.of("step")}
    is_hidden = any(use.kind in HIDING for use in each.uses)
    others &= optimizers | {owner_of(call) for call in calls_named(each, "zero_grad")}  # no schedulers
    return len(optimizers) == 1 and not others and not (is_hidden or leads_to_backward(project, each))


def _add_up(project: Project, each: ScalerStep, scale: ast.Call, call: ast.Call) -> bool:
    """Whether both backward passes run in one pass, over the same model, with nothing between that ends the sum."""
    module = each.module
    first, second = sorted((scale, call), key=position)
    loss = scale.args[0] if len(scale.args) == 1 else None
    return (
        loss is not None
        and isinstance(call.func, ast.Attribute)
        and not any(item.arg == "inputs" for item in call.keywords)
        and "scal" not in owner_of(call).lower()
        and leads_to(each, first, second)
        and loops(module, scale) == loops(module, call)
        and not _is_ended(project, each, first, second)
        and bool(_models(each, loss, scale) & _models(each, call.func.value, call))
    )


def _is_ended(project: Project, each: ScalerStep, first: ast.Call, second: ast.Call) -> bool:
    """Whether gradients may be unscaled, stored or set to zero between two calls."""
    module, start, end = each.module, position(first), position(second)
    stored = (statement for _, _, statement in module.attribute_stores.get("grad", ()))
    named = (*module.attribute_loads.get("grad", ()), *stored)
    return any(start < position(node) < end for node in named) or any(
        _may_end(project, each, call) for call in calls_of(module, each.function) if start < position(call) < end
    )


def _may_end(project: Project, each: ScalerStep, call: ast.Call) -> bool:
    if any(word in last_name(call.func) for word in ENDING) or any(
        "zero" in (item.arg or "") for item in call.keywords
    ):
        return True
    target = called_function(project, each.module, call)
    inner = calls_within(project, target) if target is not None else ()
    return any(word in last_name(item.func) for _, item in inner for word in ENDING)


def _models(each: ScalerStep, loss: ast.expr, at: ast.Call) -> set[str]:
    """The models through whose calls the gradients of a loss flow back, by their text."""
    found: set[str] = set()
    waiting, seen = [loss], set[str]()
    while waiting and len(seen) < MAX_NAMES:
        for node in differentiated(waiting.pop()):
            if isinstance(node, ast.Call) and _is_model(each, node.func):
                found.add(ast.unparse(node.func))
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                waiting += _last_values(each, node.id, at)
    return found


def _last_values(each: ScalerStep, name: str, at: ast.Call) -> list[ast.expr]:
    """What the last assignment above gives a variable of the function; those before too, that ``x = x / 2`` goes on."""
    module = each.module
    statements = (module.statement_of(item.node) for item in module.scope_of(at).lookup(name))
    given = [item for item in statements if isinstance(item, ast.Assign) and position(item) < position(at)]
    found: list[ast.expr] = []
    for item in sorted(given, key=position, reverse=True):
        found += [] if is_without_gradients(module, item) else [item.value]
        if not any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(item.value)):
            break
    return found


def _is_model(each: ScalerStep, func: ast.expr) -> bool:
    chain = attribute_chain(func)
    return chain is not None and each.module.qualified(func) is None and is_trained(each.module, func)
