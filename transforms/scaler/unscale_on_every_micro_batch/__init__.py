"""unscale_, step and update of a GradScaler do not run equally often.

## What goes wrong

With gradient accumulation the second micro-batch dies: `RuntimeError: unscale_() has already been called on this
optimizer since the last update().` The same happens in the batch after one that left the loop early (`if not
torch.isfinite(norm): continue`), or skipped its step (`if norm > limit: skip = True`), between `unscale_` and `update`;
behind `step`, it is `RuntimeError: step() has already been called since the last update().`
So does a second `unscale_` of the optimizer in the pass itself, also behind its `step`.
The other way round, `update()` in a pass without `unscale_` or `step` ends with `AssertionError: No inf checks were
recorded prior to update.`, and `step` in a pass without `backward()` (a loss that is not finite, a discriminator that
trains in each second pass) with `No inf checks were recorded for this optimizer.`

## Why

A GradScaler keeps, per optimizer, whether this step's gradients are unscaled already; only `update()` resets it. So
`unscale_` belongs exactly once before each `update`, and `update` after at least one `unscale_` or `step`. Both look
for inf in the gradients that there are, and from torch 2.0 on `zero_grad()` leaves none (torch/amp/grad_scaler.py in
PyTorch 2.13).

## Fix

`move` [safe]: where the block that unscales and clips stands directly before the `if` that steps and updates, it
moves into that `if`. Without accumulation nothing changes; with it, a certain crash goes away and clipping sees the
whole accumulated gradient. `once` [safe]: the second of two `unscale_` in one pass goes. Everything else is reported.

## Not flagged

Guards that are the same for the whole run (`if scaler is not None`, `if clip_grad > 0`); a `step` in a pass without
`backward()` behind `zero_grad(set_to_none=False)`, or none at all; `update` that runs in every
pass that unscales, also when `step` is skipped for a bad gradient; a loop over optimizers around `unscale_`; a
parameter that every caller leaves at its default; an exit that no run comes to, or behind which none follows (`break`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ....codemod.model import Finding, Fix, Rule
from ....codemod.purpose.given import may_be_on
from ....codemod.python.paths import Guard, PathFacts, exclusive, guard_facts, guards, loops, name_parts, position
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep, steps_of
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.steps_by_calls import unscaled_by_calls
from . import move_into_step
from .nested_exits import left_without_update
from .per_step_tests import changes_per_step
from .steps_alone import asks_of_the_pass, backward_passes, hides_uses, updates_by_calls
from .twice import unscaled_twice

SETTING_WORDS = {"clip", "clipping", "norm", "scaler", "amp", "fp16", "half", "mixed", "precision"}
"""Parts of a test that asks for a setting, not for the batch."""
TWICE = "unscale_ runs in passes without update: the next one raises 'unscale_() has already been called'"
STEPPED = "step runs in passes without update: the next raises 'step() has already been called since the last update()'"
NO_CHECKS = "update runs in passes without unscale_ or step, and raises 'No inf checks were recorded prior to update'"
NO_GRADIENTS = "step runs in passes without backward, and raises 'No inf checks were recorded for this optimizer'"


def check(project: Project) -> Iterator[Finding]:
    return of_each(project, _of_scaler, scalers(project))


def _of_scaler(project: Project, scaler: Scaler) -> list[Finding]:
    if scaler.switched_off or scaler.kind == "wrapper":
        return []
    paired = [step for step in steps_of(scaler) if step.of("update")]
    found = [item for step in paired for item in _repeated(project, scaler, step)]
    found += (rule.found(*draft) for step in paired for draft in unscaled_twice(project, step))
    found += (item for step in paired for item in _bare_update(project, scaler, step))
    found += (item for step in paired for item in _bare_step(project, scaler, step))
    called = unscaled_by_calls(project, scaler)
    found += (replace(item, fixes=()) for step in called for item in _repeated(project, scaler, step))
    return found if found and may_be_on(project, scaler) else []


def _repeated(project: Project, scaler: Scaler, step: ScalerStep) -> Iterator[Finding]:
    """Calls that the next pass makes again before an update: of ``unscale_``, or of ``step`` where nothing unscales."""
    for call in step.of("unscale_"):
        loop = _micro_batch_loop(step, call)
        if loop is not None:
            yield _finding(scaler, step, call, TWICE, "this loop over micro-batches repeats unscale_, not update", loop)
            continue
        near = [update for update in step.of("update") if not exclusive(step.module, call, update)]
        missing = [_missing(project, step, call, update) for update in near]
        found = [item for item in missing if item is not None]
        if near and len(found) == len(near) and not _covers(found):
            fix = move_into_step.fix(project, step, call, found[0])
            why = "passes that fail this test unscale, but do not update"
            yield _finding(scaler, step, call, TWICE, why, found[0].test, [fix])
        elif (test := left_without_update(project, step, call)) is not None:
            yield _finding(scaler, step, call, TWICE, "passes of this test leave before the update", test)
    for call in () if step.of("unscale_") or hides_uses(step) or updates_by_calls(project, step) else step.of("step"):
        near = [item for item in step.of("update") if not exclusive(step.module, call, item)]
        alike = all(loops(step.module, call) == loops(step.module, item) for item in near)
        missing = [_missing(project, step, call, update) for update in near if alike]
        found = [item for item in missing if item is not None]
        if near and len(found) == len(near) and not _covers(found):
            why = "passes that fail this test step, but do not update"
            yield _finding(scaler, step, call, STEPPED, why, found[0].test)
        elif alike and (test := left_without_update(project, step, call)) is not None:
            yield _finding(scaler, step, call, STEPPED, "passes of this test leave before the update", test)


def _missing(project: Project, step: ScalerStep, call: ast.Call, update: ast.Call) -> Guard | None:
    """A per-step condition that ``update`` waits for although ``call`` has run; None when it follows every time."""
    known = guard_facts(step.module, call)
    if not _waits_for_settings_only(step, call, guard_facts(step.module, update)):
        return None
    for guard in guards(step.module, update):
        if (set(guard.facts) <= known and not _is_set_between(step, call, guard)) or not _goes_on(step, guard, call):
            continue
        asked = guard.leaving is not None and asks_of_the_pass(project, step, guard.test, call)
        if asked or changes_per_step(project, step, guard.test):
            return guard
    return None


def _is_set_between(step: ScalerStep, call: ast.Call, guard: Guard) -> bool:
    """Whether what the test asks may have changed since ``call``: a flag that a bad gradient sets."""
    start, end = position(call), position(guard.test)
    asked = {node.id for node in ast.walk(guard.test) if isinstance(node, ast.Name)}
    return any(
        isinstance(node.ctx, ast.Store) and node.id in asked
        for node in ast.walk(step.function)
        if isinstance(node, ast.Name) and start < position(node) < end
    )


def _waits_for_settings_only(step: ScalerStep, call: ast.Call, shared: PathFacts) -> bool:
    """Whether the conditions of ``call`` that the other call does not share are settings of the whole run.

    Another spelling of the other call's condition (``if sync:`` for ``if step % n == 0:``) must not count as missing.
    """
    for guard in guards(step.module, call):
        if not set(guard.facts) <= shared and not name_parts(guard.test) & SETTING_WORDS:
            return False
    return True


def _goes_on(step: ScalerStep, guard: Guard, call: ast.Call) -> bool:
    """Whether training goes on with the next pass where ``guard`` fails."""
    if guard.leaving is None:
        return True
    if position(guard.leaving) < position(call):
        return False
    per_call = isinstance(guard.leaving, ast.Return) and not loops(step.module, call)
    return per_call or isinstance(guard.leaving, ast.Continue)


def _covers(missing: list[Guard]) -> bool:
    """Whether the calls stand in both arms of one test, so that one of them always runs."""
    outcomes = {(ast.dump(item.test), item.holds) for item in missing}
    return any((test, not holds) in outcomes for test, holds in outcomes)


def _micro_batch_loop(step: ScalerStep, call: ast.Call) -> ast.AST | None:
    """The loop that repeats ``call`` together with the backward, while every update stands outside."""
    for loop in loops(step.module, call):
        inside = set(ast.walk(loop))
        if any(update in inside for update in step.of("update")):
            return None
        bound = {node.id for node in inside if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        own = any(isinstance(item, ast.Name) and item.id in bound for item in ast.walk(step.optimizer(call) or call))
        later = [item for item in step.of("update") if position(item) > position(loop)]
        if not own and later and any(scale in inside for scale in step.of("scale")):
            return loop
    return None


# --- update without unscale_ or step ----------------------------------------------------------------------------------


def _bare_update(project: Project, scaler: Scaler, step: ScalerStep) -> Iterator[Finding]:
    recording = step.of("unscale_", "step")
    for update in step.of("update"):
        if update.args or update.keywords or not recording or step.scaler.uses_of("private", "bound-method"):
            continue
        near = [call for call in recording if not exclusive(step.module, call, update)]
        missing = [_skipped(project, step, call, update) for call in near]
        found = [item for item in missing if item is not None]
        if near and len(found) == len(near) and not _covers(found):
            why = "passes that fail this test update all the same"
            yield _finding(scaler, step, update, NO_CHECKS, why, found[0].test)


def _bare_step(project: Project, scaler: Scaler, step: ScalerStep) -> Iterator[Finding]:
    """``scaler.step`` in passes whose backward pass is left out, where ``zero_grad`` has left no gradients."""
    for call in step.of("step"):
        near = backward_passes(project, step, call)
        missing = [_skipped(project, step, backward, call) for backward in near]
        found = [item for item in missing if item is not None]
        if near and len(found) == len(near) and not _covers(found):
            why = "passes that fail this test have no backward pass"
            yield _finding(scaler, step, call, NO_GRADIENTS, why, found[0].test)


def _skipped(project: Project, step: ScalerStep, call: ast.Call, update: ast.Call) -> Guard | None:
    """A per-step condition of ``call`` that ``update`` (or a step) does not wait for."""
    if loops(step.module, call) != loops(step.module, update):
        return None
    known = guard_facts(step.module, update)
    if not _waits_for_settings_only(step, update, guard_facts(step.module, call)):
        return None
    for guard in guards(step.module, call):
        plain = guard.leaving is None and not set(guard.facts) <= known
        if plain and asks_of_the_pass(project, step, guard.test, call):
            return guard
    return None


def _finding(
    scaler: Scaler,
    step: ScalerStep,
    call: ast.Call,
    message: str,
    why: str,
    because: ast.AST,
    fixes: Sequence[Fix | None] = (),
) -> Finding:
    evidence = [step.module.place(because, why)]
    evidence += [step.module.place(item, "update is here") for item in step.of("update")[:1]]
    evidence.append(scaler.module.place(scaler.call, "the scaler is created here"))
    return rule.at(step.module, call, message, evidence, fixes)


rule = Rule.of("PF104", check)
