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

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Finding, Place, Rule
from ...codemod.python.arguments import receiver_of
from ...codemod.python.callers import callers_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, last_name, modules_with, resolve
from ...codemod.python.paths import (
    Guard,
    LoopNode,
    calls_of,
    exclusive,
    function_of,
    guards,
    loops,
    name_parts,
    position,
)
from ...codemod.source.project import Project
from ...codemod.torch.api import ACCELERATOR, FABRIC
from ...codemod.torch.clipping import owner_of_gradient
from ...codemod.torch.dtypes import FP32, TORCH_DTYPES, Dtype
from ...codemod.torch.weights import cast_dtype

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


# --- casts of gradients, and where they run ---------------------------------------------------------------------------


SPELLINGS = (".grad =", ".grad=", ".grad.data =", ".grad.data=")
"""How a file that assigns a gradient spells it; a filter of texts only."""
BACKWARDS = ("backward", "manual_backward")


@dataclass(frozen=True, slots=True, eq=False)
class GradientCast:
    """``p.grad.data = p.grad.data.float()`` or ``p.grad = p.grad.float()``."""

    module: ModuleNames
    statement: ast.Assign
    parameter: str
    """The source of the expression whose gradient it is."""
    dtype: Dtype
    through_data: bool
    """Whether ``.grad.data`` is assigned, which autograd does not check."""


@dataclass(frozen=True, slots=True, eq=False)
class CastSite:
    """Where a training function casts its gradients: the assignment itself, or the call that leads to it."""

    cast: GradientCast
    module: ModuleNames
    node: ast.Assign | ast.Call
    function: ast.AST
    backward: ast.Call
    """The last backward pass before it in the same loop."""
    loop: LoopNode
    """The innermost loop that repeats both."""


def gradient_casts(project: Project) -> Iterator[GradientCast]:
    """Every assignment of a gradient cast to a dtype that is written down."""
    for module in modules_with(project, (".grad",), SPELLINGS):
        for node in module.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                owner, source = owner_of_gradient(node.targets[0]), owner_of_gradient(receiver_of(node.value))
                same = owner is not None and source is not None and ast.unparse(source) == ast.unparse(owner)
                dtype = _dtype(project, module, node.value) if same and isinstance(node.value, ast.Call) else None
                if owner is not None and dtype is not None:
                    through_data = last_name(node.targets[0]) == "data"
                    yield GradientCast(module, node, ast.unparse(owner), dtype, through_data)


def sites_of(project: Project, cast: GradientCast) -> Iterator[CastSite]:
    """The loops that run a backward pass and then this cast, directly or through one function of the project."""
    found = _site(cast, cast.module, cast.statement)
    function = function_of(cast.module, cast.statement)
    if found is not None:
        yield found
    elif isinstance(function, FunctionNode) and not _backwards(cast.module, function):
        sites = (_site(cast, caller.module, caller.call) for caller in callers_of(project, cast.module, function).sites)
        yield from (site for site in sites if site is not None)


def _dtype(project: Project, module: ModuleNames, call: ast.Call) -> Dtype | None:
    method = last_name(call.func)
    if method == "float" and not call.args and not call.keywords:
        return FP32
    if method == "type" and len(call.args) == 1:
        return TORCH_DTYPES.get(module.qualified(call.args[0]) or "")
    return cast_dtype(project, module, call)


def _site(cast: GradientCast, module: ModuleNames, node: ast.Assign | ast.Call) -> CastSite | None:
    function = function_of(module, node)
    for backward in reversed(_backwards(module, function)):
        loop = next((loop for loop in loops(module, node) if loop in loops(module, backward)), None)
        if loop is not None and position(backward) < position(node) and not exclusive(module, backward, node):
            return CastSite(cast, module, node, function, backward, loop)
    return None


def _backwards(module: ModuleNames, function: ast.AST) -> list[ast.Call]:
    named = (call for name in BACKWARDS for call in module.calls_inside.get((function, name), ()))
    return sorted((call for call in named if isinstance(call.func, ast.Attribute)), key=position)


# --- whether several backward passes add to the same gradients before the optimizer steps -----------------------------


WAITING_WORDS = ("sync", "micro", "microbatch", "last", "boundary")
"""Words of a test that tells the last micro-batch from the others, besides those that begin with ``accum``."""
STEPPERS = ("optimizer", "optim", "optimizers", "opt", "scaler", "engine")


def accumulation_of(site: CastSite) -> Place | None:
    """What shows that gradients accumulate across the passes of the loop of ``site``.

    None where they do not, or where the cast waits for the last pass.
    """
    around = [guard.test for guard in guards(site.module, site.node)]
    if any(_tells_last(test) and site.loop in site.module.ancestors(test) for test in around):
        return None
    return _by_accelerate(site) or _by_waiting_step(site) or _by_inner_loop(site)


def _by_accelerate(site: CastSite) -> Place | None:
    """``with accelerator.accumulate(model):`` around both the backward pass and the cast."""
    around = set(site.module.ancestors(site.backward))
    found = (call for call, block in accumulating(site.module, site.node) if block in around)
    return next((site.module.place(call, "accelerate accumulates here") for call in found), None)


def accumulating(module: ModuleNames, node: ast.AST) -> Iterator[tuple[ast.Call, ast.AST]]:
    """The contexts ``self.accelerator.accumulate(model)`` around ``node``, and their blocks."""
    around = set(module.ancestors(node))
    for call in module.calls_by_name.get("accumulate", []):
        block = module.parents.get(module.parents.get(call, call))
        if block in around and block is not None and "accelerator" in ast.unparse(call.func).lower():
            yield call, block


def _by_waiting_step(site: CastSite) -> Place | None:
    """``if (i + 1) % n == 0: optimizer.step()`` further down in the same pass of the loop."""
    mine = guards(site.module, site.node)
    for call in _steps(site):
        inside = site.loop in loops(site.module, call) and not exclusive(site.module, call, site.node)
        if not inside or position(call) < position(site.node):
            continue
        extra = [guard for guard in guards(site.module, call) if not _is_among(guard, mine)]
        waiting = [guard for guard in extra if _tells_last(guard.test)]
        if not waiting or _clears_every_pass(site):
            return None
        return site.module.place(waiting[0].test, "the optimizer waits for the last micro-batch")
    return None


def _by_inner_loop(site: CastSite) -> Place | None:
    """``for micro_batch in ...: backward, cast`` inside the loop that steps."""
    outer = loops(site.module, site.loop)
    if not outer or not isinstance(site.loop, ast.For) or _clears_every_pass(site):
        return None
    if not _speaks_of_last(name_parts(site.loop.iter) | name_parts(site.loop.target)):
        return None
    for call in _steps(site):
        around = loops(site.module, call)
        if outer[0] in around and site.loop not in around and position(call) > position(site.node):
            return site.module.place(site.loop.iter, "the micro-batches of one step")
    return None


def _steps(site: CastSite) -> Iterator[ast.Call]:
    for call in calls_of(site.module, site.function):
        chain = attribute_chain(call.func) or []
        if len(chain) > 1 and chain[-1] == "step" and set(chain[-2].lower().split("_")) & set(STEPPERS):
            yield call


def _clears_every_pass(site: CastSite) -> bool:
    """Whether gradients are cleared in every pass of the loop, so that none accumulate."""
    mine = guards(site.module, site.backward)
    return any(
        site.loop in loops(site.module, call) and all(_is_among(guard, mine) for guard in guards(site.module, call))
        for call in site.module.calls_inside.get((site.function, "zero_grad"), ())
        if isinstance(call.func, ast.Attribute)
    )


def _is_among(guard: Guard, others: tuple[Guard, ...]) -> bool:
    return any(guard.test is other.test and guard.holds is other.holds for other in others)


def _tells_last(test: ast.expr) -> bool:
    counted = any(isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mod) for item in ast.walk(test))
    return counted or _speaks_of_last(name_parts(test))


def _speaks_of_last(words: set[str]) -> bool:
    return any(word in WAITING_WORDS or word.startswith("accum") for word in words)


rule = Rule.of("PF702", check)
