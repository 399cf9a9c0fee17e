"""A GradScaler's `step` and `update` do not come in pairs.

## What goes wrong

`scaler.step(optimizer)` a second time without `scaler.update()` between stops with `RuntimeError: step() has already
been called since the last update().`: the run ends in its second step. The other way round, `scaler.update()` after a
pass in which the step waited (gradient accumulation), before the step, or a second time behind the same step, stops
with `AssertionError: No inf checks were recorded prior to update.` Between `unscale_` and `step` it makes the step
divide by the scale once more, and the next pass stops with `RuntimeError: unscale_() is being called after step().`
With the scaler switched off nothing of this happens, so runs in float32 hide it. `scaler.update()` between the steps of
two optimizers after one backward pass raises nothing: whenever the scale changes, the second optimizer steps half or
twice as far, and the scale grows twice as often. Nor does a test for skipped steps that compares `get_scale()` of
before and after `step` alone: it is the update that changes the scale, so each step looks taken, and a scheduler moves
on without it.

## Why

`step` marks the optimizer as stepped until `update` clears the marks, adjusts the scale and counts the steps without
inf; `update` needs the inf checks of at least one `step` or `unscale_` since the last one, and comes once an iteration,
after all optimizers, as `step` divides by the scale of that moment (`torch/amp/grad_scaler.py`, PyTorch 2.13).

## Fix

`update` [safe]: `scaler.update()` behind the only step of the function. `move` [safe]: an update that also runs where
the step waits, or before it, goes behind the step. `once` [safe]: the second of two updates goes. They change nothing
in runs that did not stop. `move` [unsafe]: an update between `unscale_` and `step` goes behind the step, which takes
other gradients then. An update behind the loop of the steps, or between those of two optimizers, and a test that comes
before the update are only reported.

## Not flagged

Steps that run once; one update for several optimizers, also in a loop over them; an update in another method, in a
helper or under another name of the scaler, if some run comes to it; `unscale_` in every pass; a second update that
another condition guards, or that is given the new scale; optimizers with a backward pass of their own behind the
update; scalers that are passed to other code, wrapped (timm's NativeScaler, accelerate, Lightning, Fabric), or always
switched off.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ....codemod.model import Finding, Fix, Rule
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.purpose.given import may_be_on
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.regimes import regime_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import (
    LoopNode,
    function_of,
    guard_facts,
    guards,
    loop_names,
    loops,
    position,
)
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.entering_calls import sites_of
from ....codemod.torch.scaler import UseKind
from ....codemod.torch.scaler_steps import ScalerStep, steps_of
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.unscaled_steps import stored_in
from ..hidden_uses import is_done_otherwise, is_hidden
from ..straight_calls import PLAIN, follows, may_use
from .between_steps import updates_before, updates_between
from .unmoved_scales import unmoved_scales

HARMLESS: tuple[UseKind, ...] = ("update", "scale", "get_scale", "is_enabled", "none-test", "state_dict")
"""Uses of a scaler that record no inf check, and give it to nobody who could."""
READING = (*PLAIN, ast.Name, ast.Attribute)
UNCHECKED = "`scaler.update()` runs before the step: AssertionError, as no inf checks were recorded"
FORGETS = (
    "`scaler.update()` runs between `unscale_` and `step`: it forgets that the gradients are unscaled, and the step "
    "divides them by the scale once more (65536 at the start); in the next pass `unscale_` raises"
)
STEPS_TWICE = "`scaler.step` runs again without `scaler.update()` between: RuntimeError in the second step"


def check(project: Project) -> Iterator[Finding]:
    return of_each(project, _of_scaler, scalers(project))


def _of_scaler(project: Project, scaler: Scaler) -> list[Finding]:
    if scaler.kind != "direct" or scaler.switched_off or is_hidden(scaler):
        return []
    found = [] if regime_of(project, scaler).serves_bf16_alone else list(_findings(project, scaler))
    return found if found and may_be_on(project, scaler) else []


def _findings(project: Project, scaler: Scaler) -> Iterator[Finding]:
    steps = list(steps_of(scaler))
    yield from (rule.found(*draft) for step in steps for draft in updates_between(project, step))
    yield from (rule.found(*draft) for step in steps for draft in unmoved_scales(step))
    yield from (_early_update(project, step, *found) for step in steps for found in updates_before(step))
    updates = scaler.uses_of("update")
    if not any(is_reached(project, use.module, use.node) for use in updates):
        if not is_done_otherwise(project, "update"):
            yield from _never_updated(project, steps)
    elif twice := [(step, found) for step in steps if (found := _updated_twice(project, step)) is not None]:
        yield from (_second_update(project, step.module, *found) for step, found in twice)
    elif len(steps) == 1 and all(use.call is not None for use in scaler.uses_of("update")):
        yield from _unpaired(project, steps[0])


def _never_updated(project: Project, steps: list[ScalerStep]) -> Iterator[Finding]:
    for step in steps:
        calls = step.of("step")
        repeated = [call for call in calls if _runs_again(project, step, call)]
        if repeated:
            idle = step.scaler.uses_of("update")
            fix = _added(project, step, calls[0]) if len(calls) == 1 and len(steps) == 1 and not idle else None
            evidence = (
                step.scaler.module.place(step.scaler.call, "the scaler is created here and never updated"),
                *(use.module.place(use.node, "nothing comes to this update") for use in idle),
            )
            yield rule.at(step.module, repeated[0], STEPS_TWICE, evidence, [fix] if fix else [])


def _runs_again(project: Project, step: ScalerStep, call: ast.Call) -> bool:
    """Whether the step of the same optimizer runs more than once: in a loop here, or around a call of the function."""
    if _loop_of_steps(step.module, step, call) is not None:
        return True
    if not isinstance(step.function, FunctionNode):
        return False
    sites = sites_of(project, step.module, step.function)
    return any(_repeats(loop) for module, call in sites for loop in loops(module, call)[:1])


def _loop_of_steps(module: ModuleNames, step: ScalerStep, call: ast.Call) -> LoopNode | None:
    """The innermost loop that steps the same optimizer in each pass; loops over optimizers are looked through."""
    optimizer = step.optimizer(call)
    names = {node.id for node in ast.walk(optimizer) if isinstance(node, ast.Name)} if optimizer is not None else set()
    for loop in loops(module, call):
        if names.isdisjoint(loop_names(loop)) and names.isdisjoint(stored_in(loop)):
            return loop if _repeats(loop) else None
    return None


def _repeats(loop: LoopNode) -> bool:
    """Whether nothing ends the loop in its first pass for certain."""
    return not any(isinstance(item, ast.Break | ast.Return | ast.Raise) for item in loop.body)


def _added(project: Project, step: ScalerStep, call: ast.Call) -> Fix | None:
    statement = step.module.statement_of(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return None
    edit = step.module.insert(statement, f"{step.name_of_scaler(call)}.update()", "after")
    why = SameResult("a step without an update before it raises, and a single one is followed by nothing")
    return proved(project, "update", "update the scaler after the step", [edit], why)


# --- updated, but not with the step -----------------------------------------------------------------------------------


def _unpaired(project: Project, step: ScalerStep) -> Iterator[Finding]:
    updates, calls = step.of("update"), step.of("step")
    if len(updates) != len(step.scaler.uses_of("update")):
        return  # some of them in another function
    for call in calls:
        loop = _loop_of_steps(step.module, step, call)
        if loop is not None and not any(loop in step.module.ancestors(item) for item in updates):
            place = step.module.place(updates[0], "the scaler is updated here, outside of the loop of the steps")
            yield rule.at(step.module, call, STEPS_TWICE, (place,))
            return
    if len(updates) == len(calls) == 1:
        yield from _waiting(project, step, calls[0], updates[0])


def _waiting(project: Project, step: ScalerStep, call: ast.Call, update: ast.Call) -> Iterator[Finding]:
    """An update that also runs where the step waits."""
    module = step.module
    waits, always = guard_facts(module, call), guard_facts(module, update)
    if not always < waits or position(update) < position(call) or step.of("unscale_"):
        return
    if function_of(module, call) is not function_of(module, update) or loops(module, call) != loops(module, update):
        return
    if not all(always <= guard_facts(module, scale) for scale in step.of("scale")) or not step.of("scale"):
        return
    tests = [guard.test for guard in guards(module, call) if not set(guard.facts) <= always]
    if not tests or not all(_counts_passes(test) for test in tests):
        return  # a switch of the precision, which the scaler may share
    condition = ", ".join(ast.unparse(test) for test in tests)
    yield rule.at(
        module,
        update,
        "`scaler.update()` also runs where the step waits: AssertionError, as no inf checks were recorded",
        (module.place(call, f"the step depends on {condition}"),),
        [fix] if (fix := _moved(project, step, call, update)) else [],
    )


def _counts_passes(test: ast.expr) -> bool:
    """``(i + 1) % accumulation == 0``: true in some passes of a run and false in others."""
    return any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) for node in ast.walk(test))


def _moved(project: Project, step: ScalerStep, call: ast.Call, update: ast.Call) -> Fix | None:
    module = step.module
    stepping, updating = module.statement_of(call), module.statement_of(update)
    if not all(isinstance(item, ast.Expr) for item in (stepping, updating)):
        return None
    if module.parents[updating] not in module.ancestors(stepping) or step.of("get_scale"):
        return None
    text = module.document.source(module.document.span(updating))
    edits = [module.insert(stepping, text, "after"), module.remove(updating)]
    why = SameResult("an update without a step before it raises; with one nothing between them uses the scale")
    return proved(project, "move", "update the scaler only after a step", edits, why)


def _early_update(project: Project, step: ScalerStep, update: ast.Call, call: ast.Call, unscaled: bool) -> Finding:
    """An update before the step: it has no inf checks, or forgets that the gradients are unscaled."""
    fix = _moved(project, step, call, update)
    if fix is not None and unscaled:
        fix = Fix.unsafe(
            "move", "update the scaler after the step: it divides the gradients by the scale once", *fix.edits
        )
    place = step.module.place(call, "the step comes after the update")
    return rule.at(step.module, update, FORGETS if unscaled else UNCHECKED, (place,), [fix] if fix else [])


def _updated_twice(project: Project, step: ScalerStep) -> tuple[ast.Call, ast.Call] | None:
    """Two updates of which the second certainly runs behind the first, with no inf check between."""
    for first, second in pairwise(step.of("update")):
        if (
            second.args
            or second.keywords
            or not follows(step, first, second, HARMLESS)
            or may_use(step, first, second, "step", "unscale_")
        ):
            continue
        return None if any(is_done_otherwise(project, name) for name in ("step", "unscale_")) else (first, second)
    return None


def _whole(module: ModuleNames, call: ast.Call) -> ast.stmt:
    """The statement of a call, or the condition that holds nothing else."""
    statement = module.statement_of(call)
    parent = module.parents[statement]
    is_all = isinstance(parent, ast.If) and parent.body == [statement] and not parent.orelse
    plain = isinstance(parent, ast.If) and all(isinstance(each, READING) for each in ast.walk(parent.test))
    return parent if isinstance(parent, ast.If) and is_all and plain else statement


def _second_update(project: Project, module: ModuleNames, first: ast.Call, second: ast.Call) -> Finding:
    why = SameResult("an update straight behind another raises, and does nothing where the scaler is switched off")
    fix = proved(project, "once", "update the scaler once", [module.remove(_whole(module, second))], why)
    return rule.at(
        module,
        second,
        "`scaler.update()` runs a second time behind the same step: AssertionError, as no inf checks were recorded",
        (module.place(first, "the first update clears the inf checks"),),
        [fix] if fix is not None else [],
    )


rule = Rule.of("PF105", check)
