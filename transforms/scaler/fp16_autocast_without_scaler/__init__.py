"""A training step computes in float16 autocast and nothing scales the loss.

## What goes wrong

No error. Gradients below 6e-8 become zero in float16, so deep layers, embeddings and small losses stop learning; the
loss curve flattens early or the run ends worse than in float32.

## Why

`autocast` without a dtype computes in float16 on CUDA (`torch.get_autocast_dtype("cuda")` in PyTorch 2.13). The
backward of a float16 operation is float16 as well. Loss scaling (`GradScaler`) is what keeps those gradients
representable; it is part of every float16 recipe and is needed by no bfloat16 one.

## Fix

`scaler` [unsafe]: in a plain loop (one `loss.backward()`, one `optimizer.step()`, both below a nested loop that does
not start anew) a `torch.amp.GradScaler("cuda")` is made before the outermost loop, the loss is scaled, the step goes
through the scaler, and gradients are unscaled before a clip. Small gradients survive then, so training changes; steps
with inf or NaN gradients are skipped. Everything else is reported; `dtype=torch.bfloat16` is the other way out.
Where float16 was asked for (`--to fp16-mixed`) it is `scaler` [safe], as far as the region is open whenever the step is
made. Then it is also written in code that runs once, and above a function of a program that runs once an epoch
[unsafe where a file of the program chooses devices (`CUDA_VISIBLE_DEVICES`) or starts processes, or anyone may call the
function]. It is [unsafe] beside an optimizer of the project's own or FSDP, or where a function of the project reads
gradients before the step.

Weights in float16 (`model.half()`) that an optimizer steps without loss scaling lose the same gradients; a GradScaler
does not go with them (scaler-with-16-bit-parameters): keep the weights in float32 and compute under autocast. A scaler
that is off in some run (`enabled=args.dtype == "fp16"`) beside a region that is float16 in all is reported, too, and so
is one that a mode switches off whose region stays open (`GradScaler(enabled=amp and not private)`,
`autocast(enabled=amp)`): the region takes the dtype, or the switch, of the scaler. So is a loss that goes to a plain
`backward()` and a plain step of one optimizer, where a scaler of the file scales the losses of the others, as in a GAN;
and a plain step under apex's levels O1 and O2, where no code of the project calls `amp.scale_loss`. `back(loss)` and
`move()` of one object of the project are a step.

## Not flagged

Any sign of loss scaling in the file (a scaler, `loss_scale`, Fabric, Lightning, DeepSpeed, apex; accelerate, unless its
own `mixed_precision` is "no" and it runs the backward pass); files that cast to float16 or load a model in it, since a
scaler cannot unscale float16 gradients; autocast whose dtype is decided elsewhere, or is another one in all stated runs
(defaults, launch lines, files, what the code fills in: `args.dtype or "bfloat16"`), or whose switch none of these
turns on; float16 that only a GPU without bfloat16 gets (`is_bf16_supported()`, which is true by emulation on older GPUs
in recent releases); regions that are off where their dtype is None; contexts that may be one of several regions;
bfloat16; regions on the CPU, under `no_grad` or switched off; regions from whose results no gradient flows to the loss
that `backward` is called on: gradients are off around them or inside, or their names have other values by then.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.half.half_weights import SteppedWeights, stepped_weights, weights_of_optimizer
from ....codemod.model import Finding, Fix, Place, Rule
from ....codemod.purpose.decided import decided
from ....codemod.purpose.entered import entries_of
from ....codemod.purpose.given import is_run
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.regimes import regime_of
from ....codemod.purpose.steps import only_measures
from ....codemod.purpose.training import is_aside
from ....codemod.python.arguments import receiver_of
from ....codemod.python.conditions import never_reached
from ....codemod.python.creations import Creation, creations_of
from ....codemod.python.names import ModuleNames, modules_with
from ....codemod.python.paths import function_of, guards
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.accelerators import accelerator_at
from ....codemod.torch.autocast import (
    Autocast,
    autocasts,
    changes_default,
    dtype_scenarios,
    is_float32_island,
    is_without_gradients,
)
from ....codemod.torch.dtypes import FP16, Dtype
from ....codemod.torch.scaler_edits.add_scaler import fix
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.unscaled_steps import (
    ASKS_FOR_SCALING,
    LossStep,
    RegionEntry,
    accelerated_step,
    idle_scalers,
    plain_steps,
    scales_somehow,
    training_step,
)
from ....codemod.torch.weights import cast_dtype
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.loads import loads_in
from ..given_runs import comes_out
from .apex_without_scale import unscaled_apex
from .one_of_two_scaled import beside_scaled
from .scaler_left_off import left_off

LOST = "gradients below 6e-8 become zero"


def check(project: Project) -> Iterator[Finding]:
    told: set[ast.Call] = set()
    for region in autocasts(project):
        entries = entries_of(project, region)
        if not entries or never_reached(project, region.module, region.node) or not _computes_in_half(project, region):
            continue
        for entry in entries:
            if not (is_without_gradients(entry.module, entry.node) or _is_passed_by(project, entry)):
                yield from _unscaled(project, region, entry, told)
    yield from _of_float16_weights(project)
    yield from of_each(project, _with_scaler_off, scalers(project))
    yield from (rule.found(*draft) for draft in unscaled_apex(project))


def _with_scaler_off(project: Project, scaler: Scaler) -> Iterator[Finding]:
    """A region that is float16 in every run, and around its loss a scaler that a stated run leaves off."""
    scaling = {function_of(use.module, use.node) for use in scaler.uses_of("scale")}
    for found in regime_of(project, scaler).regions:
        region, module = found.autocast, found.autocast.module
        near = found.values == {FP16} and function_of(module, region.node) in scaling
        off = left_off(project, scaler, region) if near and _computes_in_half(project, region) else None
        if off is not None:
            places = [scaler.module.place(scaler.call, "the scaler is off in this run"), *off.places]
            message = f"the region computes in float16 also where the scaler is off: {LOST}"
            yield rule.at(module, region.node, message, places)


def _of_float16_weights(project: Project) -> Iterator[Finding]:
    """Weights in float16 whose optimizer steps with the gradients of a loss that nothing scales."""
    seen: set[ast.AST] = set()
    for module in modules_with(project, ("backward(",), ("optim",), ("step(",)) if _may_be_float16(project) else ():
        for backward, step in () if is_aside(module) else plain_steps(project, module):
            half = _float16_behind(project, module, receiver_of(step) or step.func)
            if half is None or half.change.node in seen or only_measures(module, half.optimizer):
                continue
            at, cast = half.change.module, half.change.node
            seen.add(cast)
            if not scales_somehow(project, at) and is_reached(project, at, cast) and is_run(project, module, step):
                message = f"{half.weights.name} is float16 and nothing scales the loss: {LOST}"
                unscaled = module.place(backward, "the unscaled backward")
                places = (*half.weights.decided.places, unscaled, module.place(step, "the optimizer steps here"))
                yield rule.at(at, cast, message, places)


def _float16_behind(project: Project, module: ModuleNames, optimizer: ast.expr) -> SteppedWeights | None:
    """The weights that an optimizer steps, where one of several calls makes it: in a run that is given."""
    made_by = creations_of(project, module, optimizer)
    if len(made_by) < 2:
        return stepped_weights(project, module, optimizer, FP16)
    own = [made.call for made in made_by if made.module is module and not made.through]
    found = (weights_of_optimizer(project, module, call, FP16) for call in own if is_run(project, module, call))
    return next((half for half in found if half is not None), None)


def _may_be_float16(project: Project) -> bool:
    return any(True for _ in project.python_documents((".half(", "float16")))


def _unscaled(project: Project, region: Autocast, entry: RegionEntry, told: set[ast.Call]) -> Iterator[Finding]:
    """``told``: the backward passes beside a scaler that have their finding: several regions may lead to one."""
    if _holds_half_weights(project, entry.module):
        return  # a GradScaler could not unscale their gradients
    step = training_step(project, region, entry)
    if step is not None and not any(scales_somehow(project, module) for module in (region.module, entry.module)):
        near = entry.function is step.function
        chosen = _chosen(project, region)
        added = fix(project, step) if (near or project.target in ASKS_FOR_SCALING) and not chosen else None
        idle = idle_scalers(project, step.module)
        unused = [item.module.place(item.call, "this scaler scales nothing") for item in idle]
        yield _finding(region, step, [None if idle else added], *chosen, *unused)
    elif step is not None and step.backward not in told and (places := beside_scaled(project, step)):
        told.add(step.backward)
        yield _finding(region, step, (), *places)
    if region.node is entry.node:
        yield from _beside_accelerator(project, region)


def _computes_in_half(project: Project, region: Autocast) -> bool:
    """Whether the region certainly computes in float16 when it runs on CUDA."""
    if region.device not in ("cuda", None) or is_float32_island(project, region):
        return False
    if region.device is None and not region.module.mentions("cuda"):
        return False
    if not _is_float16(project, region):
        return False
    enabled = region.enabled_node
    is_on = enabled is None or comes_out(project, region.module, enabled, True)
    return is_on and not _is_passed_by(project, RegionEntry(region.module, region.node))


def _is_float16(project: Project, region: Autocast) -> bool:
    """Whether it is float16 in each run, or a stated run chooses float16 among dtypes that are all known."""
    if region.form == "reference":
        return region.device == "cuda" and not changes_default(project)
    values = {item.value for item in dtype_scenarios(project, region)}
    return values == {FP16} or (all(isinstance(value, Dtype) for value in values) and bool(_chosen(project, region)))


def _chosen(project: Project, region: Autocast) -> tuple[Place, ...]:
    """Where a stated run chooses float16 among other dtypes."""
    every = dtype_scenarios(project, region)
    found = [item for item in every if item.value == FP16 and item.given]
    asked = [decided(project, region.module, item.given) for item in found if len(found) < len(every)]
    return next((item.places for item in asked if item is not None and not item.open), ())


def _is_passed_by(project: Project, entry: RegionEntry) -> bool:
    """Whether a test that the stated runs do not meet decides that this code runs."""
    tests = guards(entry.module, entry.node)
    return not all(comes_out(project, entry.module, guard.test, guard.holds) for guard in tests)


def _holds_half_weights(project: Project, module: ModuleNames) -> bool:
    """Whether the file casts something to float16, or loads a model in it."""
    calls = (call for name in ("half", "to") for call in module.calls_by_name.get(name, ()))
    return any(cast_dtype(project, module, call) == FP16 for call in calls) or any(
        FP16 in load.dtypes for load in loads_in(project, module)
    )


def _finding(region: Autocast, step: LossStep, fixes: Sequence[Fix | None], *more: Place) -> Finding:
    how = "float16" if region.dtype_node is not None else "float16 (autocast's default on CUDA)"
    evidence = [
        region.module.place(region.node, f"autocast computes in {how}"),
        step.module.place(step.backward, "the unscaled backward"),
        step.module.place(step.steps[0], "the optimizer steps here"),
        *more,
    ]
    message = f"the training step computes in float16 without loss scaling: {LOST}"
    return rule.at(region.module, region.node, message, evidence, fixes)


def _beside_accelerator(project: Project, region: Autocast) -> Iterator[Finding]:
    """``accelerator.backward(loss)`` of an Accelerator whose own precision is "no": it has no scaler."""
    module = region.module
    accelerator = accelerator_at(project, module, region.node)
    made_by = accelerator.made_by if accelerator is not None else ()
    if accelerator is None or not made_by or not all(_is_full_precision(project, made) for made in made_by):
        return
    step = accelerated_step(region, accelerator.text)
    if step is not None:
        places = [made.module.place(made.call, "the Accelerator's own precision is 'no'") for made in made_by[:1]]
        yield _finding(region, step, (), *places)


def _is_full_precision(project: Project, made: Creation) -> bool:
    """Whether an Accelerator is told "no", by all that the project states: the launcher does not count then."""
    asked = [item.value for item in made.call.keywords if item.arg == "mixed_precision"]
    known = sources(project, made.module, asked[0]) if asked else ()
    return bool(known) and all(source.value == "no" for source in known)


rule = Rule.of("PF102", check)
