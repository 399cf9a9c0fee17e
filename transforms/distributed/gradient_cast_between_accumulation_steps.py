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

`after-the-last` [unsafe]: the cast waits for the condition that the optimizer's step waits for. The micro-batches are
then added up in the dtype of the parameters, also in a single process, where they were added up in float32 so far.
Offered where the condition is written around the step (or accelerate keeps it), `zero_grad` sets to None, and no
optimizer of the Adam family is in sight, which does not take such gradients. Other places are reported.

## Not flagged

Casts after the last micro-batch; loops that step after every backward pass; one process without
DistributedDataParallel, accelerate or Fabric; gradients of a float32 copy of the parameters; code that casts the
parameter as well, or sets `grad_dtype`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Fix, Rule
from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import Guard, calls_of, loops, name_parts, position
from ...codemod.python.visible import means_the_same
from ...codemod.source.project import Project
from .accumulation import Accumulation, accumulation_of
from .gradient_casts import CastSite, GradientCast, gradient_casts, sites_of
from .replicas import Replicas, replicas_of

HALF_WORDS = ("float16", "fp16", "bf16", "half")
ADAM = ("Adam", "AdamW", "AdamW8bit", "Adam8bit", "NAdam", "RAdam", "FusedAdam")
"""Optimizers that interpolate between a gradient and a state of the parameter's dtype, and raise where they differ."""


def check(project: Project) -> Iterator[Finding]:
    for cast in gradient_casts(project):
        if _is_bound_to_parameter(cast):
            continue
        for site in sites_of(project, cast):
            accumulation = accumulation_of(site) if _speaks_of_half(site.module) else None
            replicas = replicas_of(project, site) if accumulation is not None and cast.through_data else None
            if accumulation is not None and (replicas is not None or not cast.through_data):
                yield _finding(site, accumulation, replicas)


def _speaks_of_half(module: ModuleNames) -> bool:
    return any(word in module.document.text for word in HALF_WORDS)


def _is_bound_to_parameter(cast: GradientCast) -> bool:
    """Whether the parameter is cast along with its gradient (``p.data = p.data.float()``), or its rule is lifted."""
    module, changed = cast.module, {f"{cast.parameter}.data", f"{cast.parameter}.grad_dtype"}
    around = loops(module, cast.statement)[:1]
    return any(
        receiver is not None and f"{'.'.join(receiver)}.{name}" in changed and loops(module, statement)[:1] == around
        for name in ("data", "grad_dtype")
        for receiver, _, statement in module.attribute_stores.get(name, [])
    )


def _finding(site: CastSite, accumulation: Accumulation, replicas: Replicas | None) -> Finding:
    module, cast = site.module, site.cast
    _document, _inner = module.document, cast.module.document
    evidence = [
        module.place(site.backward, "each micro-batch adds to the gradients here"),
        module.place(accumulation.node, accumulation.description),
    ]
    if site.node is not cast.statement:
        evidence.append(cast.module.place(cast.statement, "the gradients are cast here"))
    if replicas is not None:
        evidence.append(replicas.module.place(replicas.node, replicas.description))
    fix = _fix(site, accumulation)
    return rule.at(module, site.node, _message(cast), evidence, [fix] if fix is not None else [])


def _message(cast: GradientCast) -> str:
    said = f"gradients are cast to {cast.dtype.name} between backward passes that accumulate"
    if cast.through_data:
        return f"{said}: DistributedDataParallel fails at the next one where the parameters have another dtype"
    return f"{said}: autograd refuses a gradient of another dtype than its parameter's"


# --- the fix ----------------------------------------------------------------------------------------------------------


def _fix(site: CastSite, accumulation: Accumulation) -> Fix | None:
    condition = _condition(site, accumulation)
    statement = _only_casts(site)
    if condition is None or statement is None or not site.cast.through_data:
        return None
    if not _is_set_to_none(site) or _hides_trouble(site.module):
        return None
    document = site.module.document
    span = document.span(statement)
    return Fix.unsafe(
        "after-the-last",
        "cast once, when all micro-batches are in: they are then added up in the dtype of the parameters",
        site.module.wrap(span, span, f"if {condition}:"),
    )


def _condition(site: CastSite, accumulation: Accumulation) -> str | None:
    """What to wait for: the test around the optimizer's step, as far as it reads the same at the cast."""
    if isinstance(accumulation.wait, str):
        return accumulation.wait
    guard = accumulation.wait
    if not isinstance(guard, Guard) or not guard.holds or guard.leaving is not None:
        return None
    if any(isinstance(item, ast.Call) for item in ast.walk(guard.test)) or _changes_between(site, guard):
        return None
    return ast.unparse(guard.test) if means_the_same(site.module, guard.test, site.node) else None


def _changes_between(site: CastSite, guard: Guard) -> bool:
    """Whether something that the test reads is assigned between the cast and the test."""
    names = name_parts(guard.test)
    for node in site.module.nodes:
        if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            inside = position(site.node) < position(node) < position(guard.test)
            if inside and _words_written(node) & names:
                return True
    return False


def _words_written(node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {part for target in targets for part in name_parts(target)}


def _only_casts(site: CastSite) -> ast.stmt | None:
    """The outermost statement around the cast that does nothing else: the loop over the parameters."""
    statement = site.module.statement_of(site.node)
    if isinstance(site.node, ast.Call):
        return statement if isinstance(statement, ast.Expr) and statement.value is site.node else None
    for parent in site.module.ancestors(statement):
        if not isinstance(parent, ast.For | ast.If) or parent is site.loop or len(parent.body) != 1 or parent.orelse:
            break
        if isinstance(parent, ast.If) and "grad" not in name_parts(parent.test):
            break
        statement = parent
    return statement


def _is_set_to_none(site: CastSite) -> bool:
    """Whether every ``zero_grad`` in sight sets the gradients to None, as it does unless told otherwise."""
    found = [call for call in calls_of(site.module, site.function) if _last(call) == "zero_grad"]
    given = [item.value for call in found for item in call.keywords if item.arg in ("set_to_none", None)]
    given += [value for call in found for value in call.args]
    return bool(found) and all(isinstance(value, ast.Constant) and value.value is True for value in given)


def _hides_trouble(module: ModuleNames) -> bool:
    """Bucket views fail for casts after the last micro-batch as well; the Adam family fails in its step."""
    views = any(
        item.arg == "gradient_as_bucket_view"
        for call in module.calls_by_name.get("DistributedDataParallel", []) + module.calls_by_name.get("DDP", [])
        for item in call.keywords
    )
    return views or any(name in module.calls_by_name for name in ADAM)


def _last(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


rule = Rule.of("PF702", check)
