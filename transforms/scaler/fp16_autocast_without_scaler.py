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
Where float16 was asked for (`--to fp16-mixed`) the fix counts as safe: it is what was asked for. Then it is also
written where the loss is made behind the region of what that returns (`loss = criterion(logits, labels)`), in code that
runs once, and [unsafe] above a function that runs once an epoch, beside an optimizer of the project's own, or where a
function of the project reads gradients before the step.

## Not flagged

Any sign of loss scaling in the file (a scaler, `loss_scale`, accelerate, Fabric, Lightning, DeepSpeed, apex);
autocast whose dtype or switch is decided elsewhere by precision; bfloat16; regions on the CPU, under `no_grad` or
switched off; regions whose loss is not the one that `backward` is called on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.purpose.regimes import speaks_of_precision
from ...codemod.python.paths import function_of, guards
from ...codemod.source.project import Project
from ...codemod.torch.autocast import (
    Autocast,
    dtype_scenarios,
    is_float32_island,
    runs_without_gradients,
    training_autocasts,
)
from ...codemod.torch.dtypes import FP16
from ...codemod.torch.scaler_edits.add_scaler import fix
from ...codemod.torch.unscaled_steps import ASKS_FOR_SCALING, LossStep, scales_somehow, training_step


def check(project: Project) -> Iterator[Finding]:
    for region in training_autocasts(project):
        if region.form != "with" or not _computes_in_half(project, region) or runs_without_gradients(region):
            continue
        step = training_step(project, region)
        if step is not None and not scales_somehow(project, region.module):
            yield _finding(project, region, step)


def _computes_in_half(project: Project, region: Autocast) -> bool:
    """Whether the region certainly computes in float16 when it runs on CUDA."""
    if region.device not in ("cuda", None) or is_float32_island(project, region):
        return False
    if region.device is None and not region.module.mentions("cuda"):
        return False
    if {item.value for item in dtype_scenarios(project, region)} != {FP16}:
        return False
    tests = [guard.test for guard in guards(region.module, region.node)]
    tests += [region.enabled_node] if region.enabled_node is not None else []
    return not any(speaks_of_precision(project, region.module, test) for test in tests)


def _finding(project: Project, region: Autocast, step: LossStep) -> Finding:
    how = "float16" if region.dtype_node is not None else "float16 (autocast's default on CUDA)"
    evidence = [
        region.module.place(region.node, f"autocast computes in {how}"),
        step.module.place(step.backward, "the unscaled backward"),
        step.module.place(step.steps[0], "the optimizer steps here"),
    ]
    near = function_of(region.module, region.node) is step.function
    added = fix(project, step) if near or project.target in ASKS_FOR_SCALING else None
    return rule.at(
        region.module,
        region.node,
        "the training step computes in float16 without loss scaling: gradients below 6e-8 become zero",
        evidence,
        [added],
    )


rule = Rule.of("PF102", check)
