"""Gradients are cast to another dtype between backward passes that accumulate.

## What goes wrong

With several processes, `RuntimeError: Expected BFloat16, got Float` (or the two the other way round) from the gradient
reducer of DistributedDataParallel at the next backward pass. With `gradient_as_bucket_view=True` and
`zero_grad(set_to_none=False)` nothing is raised: what the reducer writes no longer reaches the parameters, and every
step after the first one uses the gradients of the first.

An assignment to `p.grad` itself fails at once for a parameter of another dtype: `attempting to assign a gradient with
dtype 'float' to a tensor with grad_dtype 'BFloat16'`.

## Why

`p.grad.data = p.grad.data.float()` swaps the storage behind a gradient without autograd's check. The reducer has made
its buckets in the dtype of the parameters and refuses the other one; without DistributedDataParallel the next backward
pass just adds to the float32 gradient. Measured with PyTorch 2.13 (gloo, one process): every combination of
`no_sync()`, bucket views and `set_to_none` fails or trains wrong where the cast runs after each micro-batch; a cast
after the last one works if `zero_grad` then sets the gradients to None. SimpleTuner's `--gradient_precision=fp32` is
this (bghira/SimpleTuner#854).

## Fix

Reported only: casting once, after the last micro-batch, means that the micro-batches are added up in the dtype of the
parameters, and optimizers of the Adam family do not take gradients of another dtype than their parameters'.

## Not flagged

Casts after the last micro-batch; loops that step after every backward pass; one process without
DistributedDataParallel, accelerate or Fabric; gradients of a float32 copy of the parameters; code that casts the
parameter as well, or sets `grad_dtype`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Finding, Place, Rule
from ....codemod.python.names import resolve
from ....codemod.python.paths import loops
from ....codemod.source.project import Project
from ....codemod.torch.api import ACCELERATOR, FABRIC
from .accumulation import accumulating, accumulation_of
from .gradient_casts import CastSite, GradientCast, gradient_casts, sites_of

DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
BY_ACCELERATE = "accelerate wraps the model in DistributedDataParallel where several processes run"
WRAPPERS = {
    **dict.fromkeys(DDP, "the model is wrapped in DistributedDataParallel"),
    **dict.fromkeys(ACCELERATOR, BY_ACCELERATE),
    **dict.fromkeys(FABRIC, "Fabric wraps the model in DistributedDataParallel where several processes run"),
}
NAMES = ("DistributedDataParallel", "Accelerator", "Fabric")

HALF_WORDS = ("float16", "fp16", "bf16", "half")


def check(project: Project) -> Iterator[Finding]:
    for cast in gradient_casts(project):
        if _is_bound_to_parameter(cast):
            continue
        for site in sites_of(project, cast):
            accumulation = accumulation_of(site) if site.module.mentions(*HALF_WORDS) else None
            replicas = replicas_of(project, site) if accumulation is not None and cast.through_data else None
            if accumulation is not None and (replicas is not None or not cast.through_data):
                yield _finding(site, accumulation, replicas)


def _is_bound_to_parameter(cast: GradientCast) -> bool:
    """Whether the parameter is cast along with its gradient (``p.data = p.data.float()``), or its rule is lifted."""
    module, changed = cast.module, {f"{cast.parameter}.data", f"{cast.parameter}.grad_dtype"}
    around = loops(module, cast.statement)[:1]
    return any(
        receiver is not None and f"{'.'.join(receiver)}.{name}" in changed and loops(module, statement)[:1] == around
        for name in ("data", "grad_dtype")
        for receiver, _, statement in module.attribute_stores.get(name, [])
    )


def _finding(site: CastSite, accumulation: Place, replicas: Place | None) -> Finding:
    module, cast = site.module, site.cast
    evidence = [module.place(site.backward, "each micro-batch adds to the gradients here"), accumulation]
    if site.node is not cast.statement:
        evidence.append(cast.module.place(cast.statement, "the gradients are cast here"))
    return rule.at(module, site.node, _message(cast), [*evidence, *([replicas] if replicas is not None else [])])


def _message(cast: GradientCast) -> str:
    said = f"gradients are cast to {cast.dtype.name} between backward passes that accumulate"
    if cast.through_data:
        return f"{said}: DistributedDataParallel fails at the next one where the parameters have another dtype"
    return f"{said}: autograd refuses a gradient of another dtype than its parameter's"


# --- replicas ---------------------------------------------------------------------------------------------------------


def replicas_of(project: Project, site: CastSite) -> Place | None:
    """What shows in the file of ``site`` that several processes hold its model; None where nothing does."""
    module = site.module
    for name in ("no_sync", "no_backward_sync"):
        for call in module.calls_inside.get((site.function, name), ()):
            return module.place(call, "gradient reduction is disabled here")
    for call in (call for calls in module.calls_by_name.values() for call in calls):
        if (module.qualified(call.func) or "").rpartition(".")[2] in NAMES:
            description = WRAPPERS.get(resolve(project, module, call.func) or "")
            if description is not None:
                return module.place(call, description)
    found = accumulating(module, site.node)  # of an accelerator that is made in another file
    return next((module.place(call, BY_ACCELERATE) for call, _ in found), None)


rule = Rule.of("PF702", check)
