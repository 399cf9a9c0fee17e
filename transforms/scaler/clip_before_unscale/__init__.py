"""Gradients are clipped, or measured, while they are still multiplied by the loss scale.

## What goes wrong

No error. `clip_grad_norm_(parameters, 1.0)` sees gradients that are 65536 times too large (the scale a GradScaler
starts with), so every step is clipped; after `scaler.step` has divided by the scale, the gradients are thousands of
times too small. SGD crawls or stalls. Adam, which divides by the size of its gradients, hides that until they come near
its `eps`, but follows every batch with equal weight. The threshold changes its meaning whenever the scale moves. A
gradient penalty whose gradients are taken of `scaler.scale(loss)` is as wrong: it asks for gradients near zero.

## Why

`scaler.scale(loss).backward()` leaves scaled gradients behind. `scaler.step(optimizer)` divides them by the scale,
but only then. Whoever looks at gradients in between has to call `scaler.unscale_(optimizer)` first (PyTorch's AMP
examples, "Working with Unscaled Gradients"); `step` notices and does not divide twice.

## Fix

`unscale` [unsafe]: `scaler.unscale_(optimizer)` is inserted directly before the clip, behind the same conditions.
Clipping then works in true units: updates become larger, and a threshold tuned against scaled gradients has to be
retuned. An `unscale_` that comes too late moves up. Written only where the function steps exactly one optimizer
with this scaler and each clip is followed by a step; a clip that also runs on micro-batches without a step is
reported without a fix, and so are hooks of parameters that clamp (a backward pass calls them with scaled gradients),
norms that are taken too early, a clip between calls of functions that scale and step (`amp.backward(loss)`,
`amp.step(optimizer)`), a clip behind the step, or before the backward pass, which has no effect, and penalties.

## Not flagged

Scalers that each stated run leaves off; `unscale_` anywhere earlier on the path, also inside a helper, unless a setting
leaves it out in each stated run (`if CFG.unscale:`, which is false); a clip in a branch that excludes the scaled
backward; functions that also run an unscaled `backward()` beside the scaled one in some stated run; thresholds
multiplied by `get_scale()`; penalties of gradients that anything divides, or that are taken of a loss which is not
scaled; norms of which only inf and NaN are tested; clips that only measure (`max_norm=1e9`, `inf`) for a line of a log;
clipping by Fabric, Lightning or DeepSpeed, and by accelerate itself (a clip of torch behind `accelerator.backward` is
flagged where a stated run computes in float16, behind `engine.backward` of DeepSpeed where every one does, and so is
Lightning's `self.clip_gradients` between `manual_backward` and the optimizer's `step` where every trainer does:
Lightning unscales in that step); a scaler that only ever runs under bfloat16 (see grad-scaler-under-bf16).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Edit, Finding, Fix, Rule
from ....codemod.purpose.given import given_in_bf16, is_switched_off, may_be_on
from ....codemod.purpose.regimes import regime_of
from ....codemod.python.functions import called_function
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.numbers import number_of
from ....codemod.python.paths import calls_of, exclusive, function_of, guard_facts, guards, loops, name_parts, position
from ....codemod.python.precision_words import SCALING
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.clipping import Clip, calls_within, clips_of
from ....codemod.torch.scaler_steps import ScalerStep, may_unscale, steps_of
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.steps_by_calls import steps_by_calls
from .accelerated import clips_past_accelerator, clips_past_engine
from .lightning_clips import clips_before_lightning
from .scaled_norms import clipping_hooks, is_only_logged, measures_only, norms_of
from .scaled_penalties import scaled_penalties
from .unscale_insertion import unscale_before

SCALED = "the threshold is compared with gradients that are still multiplied by the loss scale"
EARLY = "gradients are clipped before the backward pass that makes them: the step takes them as they are"
NORM = "the norm is of gradients that are still multiplied by the loss scale"
PENALTY = "the penalty is of gradients that are still multiplied by the loss scale"
FIRST_SCALE = 65536


def check(project: Project) -> Iterator[Finding]:
    yield from of_each(project, _of_scaler, scalers(project))
    for draft in (*clips_past_accelerator(project), *clips_past_engine(project), *clips_before_lightning(project)):
        yield rule.found(*draft)


def _of_scaler(project: Project, scaler: Scaler) -> list[Finding]:
    if scaler.switched_off or scaler.kind == "wrapper" or _is_of_bf16_alone(project, scaler):
        return []
    steps = (*steps_of(scaler), *steps_by_calls(project, scaler))
    found = [item for step in steps for item in _in_function(project, scaler, step)]
    for module, hook in clipping_hooks(scaler):
        places = [use.module.place(use.node, "the loss is scaled here") for use in scaler.uses_of("scale")[:1]]
        message = _of_scale(project, scaler, f"a hook clips gradients of a scaled loss: {SCALED}")
        found.append(rule.at(module, hook, message, places))
    for module, call, loss in scaled_penalties(scaler):
        places = [module.place(loss, "the penalty goes into a loss that is scaled again")]
        found.append(rule.at(module, call, _of_scale(project, scaler, PENALTY), places))
    return found if found and may_be_on(project, scaler) else []


def _is_of_bf16_alone(project: Project, scaler: Scaler) -> bool:
    """Whether the scaler only runs under bfloat16, and a setting does not leave that off: it is the mistake then."""
    regime = regime_of(project, scaler)
    is_on = regime.own_condition is not None or given_in_bf16(project, regime)
    return regime.serves_bf16_alone and is_on


def _in_function(project: Project, scaler: Scaler, step: ScalerStep) -> Iterator[Finding]:
    clips = [clip for clip in clips_of(project, step.module, step.function) if clip.call not in step.of("step")]
    measuring = [clip for clip in clips if measures_only(project, clip)]
    clips = [clip for clip in clips if clip not in measuring]
    norms = [*norms_of(project, step), *(clip for clip in measuring if not is_only_logged(step.module, clip.call))]
    if not (clips or norms) or _has_plain_backward(project, step):
        return
    scaled = [clip for clip in clips if _scaled_by(project, step, clip) is not None]
    late = [clip for clip in clips if _is_too_late(step, clip)]
    beside = [clip for clip in clips if all(exclusive(step.module, item, clip.call) for item in step.of("step"))]
    read = [clip for clip in norms if _scaled_by(project, step, clip) is not None]
    if scaled:
        yield _finding(project, scaler, step, scaled)
    elif late and len(late) + len(beside) == len(clips):
        place = step.module.place(step.of("step")[-1], "the scaler steps here")
        yield rule.at(step.module, late[0].call, "gradients are clipped behind the step, which has no effect", (place,))
    elif clips and all(_is_too_early(project, step, clip) for clip in clips):
        place = step.module.place(step.of("scale")[0], "the backward pass that makes the gradients is here")
        yield rule.at(step.module, clips[0].call, EARLY, (place,))
    elif read and not step.of("get_scale"):
        place = step.module.place(step.of("step")[0], "gradients are unscaled only here")
        yield rule.at(step.module, read[0].call, _of_scale(project, scaler, NORM), (place,))


def _of_scale(project: Project, scaler: Scaler, message: str) -> str:
    """The message with the scale that the scaler starts with, where that is known."""
    given = (scaler.arguments or {}).get("init_scale")
    first = number_of(project, scaler.module, given) if given is not None else FIRST_SCALE
    return f"{message} ({first:.12g} at the start)" if first is not None and scaler.arguments is not None else message


def _scaled_by(project: Project, step: ScalerStep, clip: Clip) -> ast.Call | None:
    """The step whose gradients ``clip`` certainly sees scaled, or None."""
    module, call = step.module, clip.call
    after = [item for item in step.of("step") if position(item) > position(call) and not exclusive(module, item, call)]
    if not after:
        return None
    scales = [item for item in step.of("scale") if position(item) < position(call)]
    scales = [item for item in scales if not exclusive(module, item, call) and not exclusive(module, item, after[0])]
    if not scales and (step.of("scale") or not _is_never_unscaled(step.scaler)):
        return None
    if _is_unscaled(project, step, call) or _is_behind_another_switch(step, call, (*scales, after[0])):
        return None
    start = position(scales[-1]) if scales else (0, 0)
    if any(start < position(item) < position(call) for item in _of_others(project, step)):
        return None
    return None if may_unscale(project, step, start, call) else after[0]


def _of_others(project: Project, step: ScalerStep) -> list[ast.Call]:
    """Where other scalers of the function scale or unscale: each has an optimizer of its own."""
    others = (use for scaler in scalers(project) if scaler is not step.scaler for use in scaler.uses)
    here = (use.call for use in others if use.module is step.module and use.kind in ("scale", "unscale_"))
    return [call for call in here if call is not None and function_of(step.module, call) is step.function]


def _is_too_late(step: ScalerStep, clip: Clip) -> bool:
    """Whether gradients are clipped behind each step of the pass, and zeroed before the next one."""
    module, call = step.module, clip.call
    steps = [item for item in step.of("step") if not exclusive(module, item, call)]
    if not steps or position(call) < position(steps[-1]) or not module.calls_inside.get((step.function, "zero_grad")):
        return False
    again = any(position(steps[-1]) < position(item) for item in step.of("scale"))
    return loops(module, call) == loops(module, steps[-1]) and not again


def _is_too_early(project: Project, step: ScalerStep, clip: Clip) -> bool:
    """Whether each backward pass comes behind the clip, and the step behind that in the same pass."""
    module, call = step.module, clip.call
    made = [item for item in step.of("scale") if not exclusive(module, item, call)]
    steps = [item for item in step.of("step") if not exclusive(module, item, call)]
    if not made or not steps or not position(call) < position(made[0]) < position(steps[0]):
        return False
    if not loops(module, call) == loops(module, made[0]) == loops(module, steps[0]):
        return False
    before = [item for item in calls_of(module, step.function) if position(item) < position(call)]
    return not any(_may_go_back(project, module, item) for item in before)


def _may_go_back(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call is, or leads to, a backward pass."""
    target = called_function(project, module, call)
    inner = [call, *(item for _, item in calls_within(project, target))] if target is not None else [call]
    return any("backward" in last_name(item.func).lower() for item in inner)


def _is_never_unscaled(scaler: Scaler) -> bool:
    """Whether the whole flow of the scaler is known and holds no ``unscale_`` at all (scale and step stand apart)."""
    hidden = scaler.routes & {"escaped", "stored", "returned"}
    return not hidden and bool(scaler.uses_of("scale")) and not scaler.uses_of("unscale_", "private", "bound-method")


def _is_unscaled(project: Project, step: ScalerStep, clip: ast.Call) -> bool:
    """Whether some scaler has unscaled for an optimizer still to be stepped: the clip may be meant for that one.

    An ``unscale_`` that each stated run leaves out (``if CFG.unscale:``) does not count.
    """
    calls = [call for call in calls_of(step.module, step.function) if isinstance(call.func, ast.Attribute)]
    before = [call for call in calls if position(call) < position(clip) and not exclusive(step.module, call, clip)]
    for call in before:
        is_unscale = call.func.attr == "unscale_"  # type: ignore[attr-defined]
        if is_unscale and not is_switched_off(project, step.module, call):
            optimizer = step.text_of_optimizer(call)
            stepped = [
                item
                for item in before
                if item.func.attr == "step" and step.text_of_optimizer(item) == optimizer  # type: ignore[attr-defined]
            ]
            if not any(position(item) > position(call) for item in stepped):
                return True
    return False


def _is_behind_another_switch(step: ScalerStep, clip: ast.Call, scaled: Sequence[ast.Call]) -> bool:
    """Whether the clip waits for a test about precision that the scaled backward and the step do not share."""
    shared = {fact for call in scaled for fact in guard_facts(step.module, call)}
    for guard in guards(step.module, clip):
        if not set(guard.facts) <= shared and name_parts(guard.test) & {*SCALING}:
            return True
    return False


def _has_plain_backward(project: Project, step: ScalerStep) -> bool:
    """Whether an unscaled ``backward()`` can run beside the scaled one: whose gradients are clipped is then open."""
    scales, others = step.of("scale"), set(_of_others(project, step))
    names = _scaled_names(step)
    is_program = isinstance(step.function, ast.Module)
    for node in calls_of(step.module, step.function) if is_program else ast.walk(step.function):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"):
            continue
        receiver = node.func.value
        inner = set(ast.walk(receiver))
        plain = node not in scales and inner.isdisjoint((*scales, *others)) and ast.unparse(receiver) not in names
        is_apart = bool(scales) and all(exclusive(step.module, node, scale) for scale in scales)
        if plain and not is_apart and not is_switched_off(project, step.module, node):
            return bool(scales) or not _is_scaled_elsewhere(node)
    return False


def _is_scaled_elsewhere(node: ast.Call) -> bool:
    """``self.backward(loss)``-like calls hand the loss to whoever scales it."""
    return bool(node.args)


def _scaled_names(step: ScalerStep) -> set[str]:
    names = set()
    for scale in step.of("scale"):
        statement = step.module.statement_of(scale)
        if isinstance(statement, ast.Assign):
            names |= {ast.unparse(target) for target in statement.targets}
    return names


def _finding(project: Project, scaler: Scaler, step: ScalerStep, clips: list[Clip]) -> Finding:
    first = clips[0]
    own = {use.call for use in scaler.uses_of("scale", "step")}
    is_direct = own.issuperset(step.of("scale", "step"))
    edits = unscale_before(step, first, clips) if is_direct else None
    fixes = [_fix(step, edits)] if edits is not None else []
    evidence = [step.module.place(call, "the loss is scaled here") for call in step.of("scale")[:1]]
    left_out = [call for call in step.of("unscale_") if position(call) < position(first.call)]
    evidence += [step.module.place(call, "each stated run leaves this out") for call in left_out]
    evidence += [step.module.place(call, "gradients are unscaled only here") for call in step.of("step")[:1]]
    evidence += [step.module.place(clip.call, "clipped here too") for clip in clips[1:3]]
    evidence.append(scaler.module.place(scaler.call, "the scaler is created here"))
    message = _of_scale(project, scaler, f"gradients are clipped before they are unscaled: {SCALED}")
    return rule.at(step.module, first.call, message, evidence, fixes)


def _fix(step: ScalerStep, edits: tuple[Edit, ...]) -> Fix:
    return Fix.unsafe(
        "unscale",
        f"call {step.name_of_scaler(step.of('step')[0])}.unscale_ before the clip: clipping is then in true units, so "
        "updates become larger and the threshold may need retuning",
        *edits,
    )


rule = Rule.of("PF103", check)
