"""The loss is scaled and the step is not the scaler's, or the other way round.

## What goes wrong

No error. After `scaler.scale(loss).backward()` a plain `optimizer.step()` takes gradients that are 65536 times too
large: SGD diverges, Adam hides it until its `eps` or a clip counts, and a step with inf or NaN is not skipped. The
other way round, `scaler.step(optimizer)` divides gradients of a plain `loss.backward()` by the scale: they are 65536
times too small, also where a second backward pass adds them to scaled ones; where nothing ever scales a loss, it
raises `AssertionError: Attempted step but _scale is None`. A plain step behind `scaler.step` of the
same optimizer steps a second time with the same gradients, also where the scaler skipped them for inf or NaN. Behind
`scaler.unscale_` a plain step takes gradients of the right size, but nobody skips those with inf or NaN: the first
scale that is too large, which every scaler tries, turns the weights into NaN.
`scaler.unscale_(model)` raises `AttributeError: ... has no attribute 'param_groups'`, and a scaler by hand that steps
what accelerate prepared in float16 `AssertionError: Attempted step but _scale is None`: accelerate has its own scaler.
A scaler that steps in each micro-batch while the gradients are set to zero in each fourth divides what it has unscaled
once more: only the last micro-batch counts.
`scaler.step(optimizer, closure=closure)` raises `RuntimeError: Closure use is not currently supported if GradScaler is
enabled.`; by position the closure runs behind the unscaling, and what it scales stays scaled.
What both scale (`accelerator.backward(scaler.scale(loss))`) is 65536 times too large where only one of them unscales:
behind `optimizer.step()` of what was prepared, or `scaler.step` of an optimizer that was not. The same holds of a plain
`optimizer.step()` of one that was not, behind `accelerator.backward(loss)` in float16, and of
`engine.backward(scaler.scale(loss))` of DeepSpeed, whatever it computes in.
`loss.backward()` in place of `engine.backward(loss)` of DeepSpeed in float16 leaves the scaling out, too; from 0.18.3
on it raises `RuntimeError: Loss scaling is required for this configuration`, without ZeRO `Direct calls to
tensor.backward() are not supported in this configuration`. In float16 it also takes the place of
`accelerator.backward(loss)`, of Lightning's `self.manual_backward(loss)` and of `fabric.backward(loss)` (Lightning
2.6 raises a `RuntimeError` of its own there): the step of the optimizer then raises
`AssertionError: Attempted step but _scale is None` or `Attempted unscale_ but _scale is None`.

## Why

Only `scaler.step` and `scaler.unscale_` divide by the scale, and they divide whatever they find
(`torch/amp/grad_scaler.py`, PyTorch 2.13), as DeepSpeed's optimizers do in float16 (`deepspeed/runtime/engine.py`,
0.19.6). What one backward pass scales, the step of that optimizer has to unscale.

## Fix

None is written: whether the scaling or the step is the mistake has to be decided.

## Not flagged

The branch of a switch that the scaler shares; gradients that are unscaled before and tested, by whatever test, or
scaled by hand (`get_scale`); optimizers whose last backward pass was a plain one, or whose gradients are set to zero
before the plain step; a plain backward pass behind gradients that are unscaled or set to zero, for
another model, or for its `inputs` alone; backward passes in functions that are called; a plain step behind a call that
scales where some other call may go back, unscale or step; a scaler that is passed to other code, kept by a library's
wrapper, or that no given run switches on; optimizers of the project's own classes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Finding, Rule
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of
from ....codemod.python.creations import known_creations
from ....codemod.python.functions import class_of
from ....codemod.python.names import attribute_chain
from ....codemod.python.paths import exclusive, guard_facts, guards, loops, name_parts, position
from ....codemod.python.precision_words import SCALING
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.scaler import Scaler
from ....codemod.torch.scaler_steps import ScalerStep, passes_of
from ....codemod.torch.scalers import scalers
from ....codemod.torch.steps_by_calls import scaled_by_calls
from ..given_runs import is_on, steps_of_accelerate
from ..passes import calls_named, leads_to, leads_to_backward, plain_backwards
from .added_gradients import added_gradients, kept_gradients
from .closures import closures
from .engine_passes import passes_of_engines
from .never_scaled import never_scaled
from .scaled_twice import scaled_for_engine, scaled_twice
from .trainer_passes import passes_of_trainers
from .unprepared import steps_of_unprepared

HIDING = (
    *("escaped", "kept", "private", "bound-method", "method", "stored"),
    *("get_scale", "argument", "called"),
)
"""Uses of a scaler in a function behind which somebody else may unscale or step."""
OF_MODELS = ("parameters", "named_parameters")
"""Methods that optimizers do not have."""
NO_OPTIMIZERS = ("torch.nn.", "torch.device")


def check(project: Project) -> Iterator[Finding]:
    yield from of_each(project, _of_scaler, scalers(project))
    for draft in (*passes_of_engines(project), *passes_of_trainers(project), *steps_of_unprepared(project)):
        yield rule.found(*draft)


def _of_scaler(project: Project, scaler: Scaler) -> list[Finding]:
    if scaler.kind == "wrapper" or scaler.switched_off or not scaler.uses_of("scale", "step"):
        return []
    found = [rule.found(*draft) for draft in never_scaled(project, scaler)]
    found = found or [item for each in passes_of(scaler) for item in _in_function(project, each)]
    found += [rule.found(*draft) for each in passes_of(scaler) for draft in added_gradients(project, each)]
    found += [item for each in passes_of(scaler) for item in _of_no_optimizer(project, each)]
    found += [item for each in scaled_by_calls(project, scaler) for item in _by_calls(project, each)]
    found += _of_accelerate(project, scaler)
    found += [rule.found(*draft) for each in passes_of(scaler) for draft in scaled_twice(project, each)]
    found += [rule.found(*draft) for each in passes_of(scaler) for draft in scaled_for_engine(project, each)]
    found += [rule.found(*draft) for each in passes_of(scaler) for draft in kept_gradients(project, each)]
    found += [rule.found(*draft) for each in passes_of(scaler) for draft in closures(project, each)]
    return found if found and is_on(project, scaler) else []


def _in_function(project: Project, each: ScalerStep) -> Iterator[Finding]:
    if any(use.kind in HIDING for use in each.uses) or leads_to_backward(project, each):
        return
    for call in calls_named(each, "step"):
        if call not in each.of("step") and not call.args and _is_optimizer(project, each, call):
            yield from _unscaled_step(project, each, call) if each.of("unscale_") else _plain_step(project, each, call)
    for call in each.of("step") if not each.of("unscale_") else ():
        yield from _plain_backward(project, each, call)


def _by_calls(project: Project, each: ScalerStep) -> Iterator[Finding]:
    """A plain step behind a call that scales, in a function that leaves it to others to scale."""
    if all(each.optimizer(call) is not None for call in each.of("step")):
        for call in calls_named(each, "step"):
            if call not in each.of("step") and not call.args and _is_optimizer(project, each, call):
                yield from _plain_step(project, each, call)


def _is_optimizer(project: Project, each: ScalerStep, call: ast.Call) -> bool:
    """Whether a plain optimizer steps: called so, and made by no class of the project."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    chain = attribute_chain(receiver) or [""]
    made = known_creations(project, each.module, receiver)
    own = any(class_of(project, item.module, item.call.func) is not None or item.through for item in made)
    return "opt" in chain[-1].lower() and not own


def _plain_step(project: Project, each: ScalerStep, call: ast.Call) -> Iterator[Finding]:
    module = each.module
    scales = [item for item in each.of("scale") if leads_to(each, item, call)]
    backwards = [item for item in plain_backwards(each) if item not in scales and position(item) < position(call)]
    if not scales or any(not exclusive(module, item, call) for item in backwards) or _shares_no_switch(each, call):
        return
    mine = [item for item in each.of("step") if each.text_of_optimizer(item) == owner_of(call)]
    before = [item for item in mine if leads_to(each, item, call) and position(item) > position(scales[-1])]
    if (mine and not before) or _is_zeroed(each, scales[-1], call) or not is_reached(project, module, call):
        return
    if before:
        message = "the optimizer steps a second time, past the scaler: also with gradients that the scaler skipped"
        evidence = module.place(before[-1], "the scaler steps it here")
    else:
        message = "the optimizer steps past the scaler: its gradients are still multiplied by the loss scale"
        evidence = module.place(scales[-1], "the loss is scaled here")
    yield rule.at(module, call, message, (evidence, each.scaler.module.place(each.scaler.call, "the scaler")))


def _unscaled_step(project: Project, each: ScalerStep, call: ast.Call) -> Iterator[Finding]:
    """A plain step of gradients that ``unscale_`` has divided by the scale, which nothing tests for inf and NaN."""
    module, optimizer = each.module, owner_of(call)
    unscaled = [item for item in each.of("unscale_") if each.text_of_optimizer(item) == optimizer]
    before = [item for item in unscaled if leads_to(each, item, call)]
    stepped = any(each.text_of_optimizer(item) == optimizer for item in each.of("step"))
    tested = any(map(_tests, _between(each, before[-1], call))) if before else True
    if stepped or tested or loops(module, before[-1]) != loops(module, call) or not is_reached(project, module, call):
        return
    if guard_facts(module, before[-1]) == guard_facts(module, call):
        message = "the optimizer steps past the scaler: nothing skips the steps whose gradients have inf or NaN"
        evidence = module.place(before[-1], "the scaler looks for them here, and only its own step asks for the answer")
        yield rule.at(module, call, message, (evidence, each.scaler.module.place(each.scaler.call, "the scaler")))


def _tests(node: ast.AST) -> bool:
    """Whether a node may keep inf and NaN from the step: a test, ``nan_to_num``, ``error_if_nonfinite=True``."""
    name = getattr(node, "arg", None) or getattr(node, "attr", None) or getattr(node, "id", None) or ""
    return isinstance(node, ast.If | ast.Assert) or any(word in str(name).lower() for word in ("nan", "finite"))


def _between(each: ScalerStep, first: ast.Call, second: ast.Call) -> Iterator[ast.AST]:
    """What stands between two calls of a function."""
    found = (node for node in ast.walk(each.function) if hasattr(node, "lineno"))
    return (node for node in found if position(first) < position(node) < position(second))


def _of_accelerate(project: Project, scaler: Scaler) -> Iterator[Finding]:
    """``scaler.step(optimizer)`` where accelerate computes in float16: the optimizer steps with a scaler of its own."""
    steps, runs = steps_of_accelerate(project, scaler)
    if not all(run.dtypes == {FP16} for run in runs) or _scales_for_accelerate(scaler):
        return
    for use in steps:
        if is_reached(project, use.module, use.node):
            message = (
                "accelerate steps this optimizer with a scaler of its own, and one of the two has scaled nothing: this "
                "raises AssertionError in float16"
            )
            places = (runs[0].place, scaler.module.place(scaler.call, "the scaler that is used by hand"))
            yield rule.at(use.module, use.call or use.node, message, places)


def _scales_for_accelerate(scaler: Scaler) -> bool:
    """``accelerator.backward(scaler.scale(loss))``: both scale, and both unscale."""
    return any(
        use.call is not None and not isinstance(use.module.parents[use.call], ast.Attribute)
        for use in scaler.uses_of("scale")
    )


def _of_no_optimizer(project: Project, each: ScalerStep) -> Iterator[Finding]:
    """``scaler.unscale_(model)``: what is no optimizer has no groups of parameters."""
    for call in each.of("unscale_", "step"):
        given = each.optimizer(call)
        shown = _shows_other_kind(project, each, given) if given is not None else None
        if given is None or shown is None or not is_reached(project, each.module, call):
            continue
        message = f"{ast.unparse(given)} is no optimizer: this raises AttributeError, it has no param_groups"
        yield rule.at(each.module, given, message, [each.module.place(shown, "this shows what it is")])


def _shows_other_kind(project: Project, each: ScalerStep, given: ast.expr) -> ast.expr | None:
    """What shows that an argument is a model, a loss, a generator of parameters or a device."""
    module = each.module
    if isinstance(given, ast.Call):
        return given if getattr(given.func, "attr", "") in OF_MODELS else None
    made = known_creations(project, module, given)
    own = [found for item in made if (found := class_of(project, item.module, item.call.func)) is not None]
    if attribute_chain(given) is None or any("param_groups" in holder.identifiers for holder, _ in own):
        return None
    if made and all((item.module.qualified(item.call.func) or "").startswith(NO_OPTIMIZERS) for item in made):
        return made[0].call if made[0].module is module else given
    used = (call for name in (*OF_MODELS, "backward") for call in calls_named(each, name))
    return next((call for call in used if owner_of(call) == ast.unparse(given)), None)


def _is_zeroed(each: ScalerStep, scale: ast.Call, step: ast.Call) -> bool:
    """Whether ``zero_grad`` of the optimizer or of a model, or ``p.grad = None``, leaves the step nothing scaled."""
    zeros = [call for call in calls_named(each, "zero_grad") if leads_to(each, scale, call)]
    own = [call for call in zeros if owner_of(call) == owner_of(step) or "opt" not in owner_of(call).lower()]
    stored = [statement for _, _, statement in each.module.attribute_stores.get("grad", ())]
    return any(leads_to(each, call, step) for call in own) or any(
        position(scale) < position(item) < position(step) for item in stored
    )


def _shares_no_switch(each: ScalerStep, call: ast.Call) -> bool:
    """Whether the call waits for a test of precision that does not hold wherever the loss is scaled."""
    shared = frozenset.intersection(*(guard_facts(each.module, item) for item in (*each.of("scale"), *each.of("step"))))
    return any(
        not set(guard.facts) <= shared and name_parts(guard.test) & {*SCALING} for guard in guards(each.module, call)
    )


# --- backward passes that nothing scales ------------------------------------------------------------------------------


def _plain_backward(project: Project, each: ScalerStep, step: ast.Call) -> Iterator[Finding]:
    """``loss.backward()`` between ``zero_grad`` of an optimizer and the scaler's step of it, and no scaled one."""
    module, optimizer = each.module, each.text_of_optimizer(step)
    zeros = [call for call in calls_named(each, "zero_grad") if owner_of(call) == optimizer]
    start = _last_before(each, zeros, step)
    if start is None:
        return
    between = [call for call in plain_backwards(each) if position(start) < position(call) < position(step)]
    used = [call for call in each.of("scale") if not isinstance(module.parents[call], ast.Expr)]
    scaled = [call for call in used if position(start) < position(call) < position(step)]
    if not between or scaled or any("scal" in owner_of(call).lower() for call in between):
        return
    if all(leads_to(each, call, step) and _same_pass(each, call, step) for call in between) and is_reached(
        project, module, step
    ):
        yield rule.at(
            module,
            between[-1],
            "the loss is not scaled, and the scaler divides its gradients by the loss scale: they are 65536 times too "
            "small at the start",
            (
                module.place(step, "the scaler steps the optimizer here"),
                each.scaler.module.place(each.scaler.call, "the scaler"),
            ),
        )


def _last_before(each: ScalerStep, calls: Sequence[ast.Call], step: ast.Call) -> ast.Call | None:
    found = [call for call in calls if leads_to(each, call, step) and _same_pass(each, call, step)]
    return found[-1] if found else None


def _same_pass(each: ScalerStep, call: ast.Call, step: ast.Call) -> bool:
    """Whether both run equally often: in the same loops, and with no test of precision around one alone."""
    module = each.module
    facts = guard_facts(module, call) ^ guard_facts(module, step)
    tests = [guard for item in (call, step) for guard in guards(module, item) if set(guard.facts) & facts]
    asks_precision = any(name_parts(item.test) & {*SCALING} for item in tests)
    return loops(module, call) == loops(module, step) and not asks_precision


rule = Rule.of("PF108", check)
