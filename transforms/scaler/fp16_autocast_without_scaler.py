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
Where float16 was asked for (`--to fp16-mixed`) the fix counts as safe: it is what was asked for.

## Not flagged

Any sign of loss scaling in the file (a scaler, `loss_scale`, accelerate, Fabric, Lightning, DeepSpeed, apex);
autocast whose dtype or switch is decided elsewhere by precision; bfloat16; regions on the CPU, under `no_grad` or
switched off; regions whose loss is not the one that `backward` is called on.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Finding, Rule
from ...codemod.purpose.regimes import speaks_of_precision
from ...codemod.python.bindings import attribute_assignments
from ...codemod.python.functions import class_of
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import calls_of, exclusive, function_of, guards, position
from ...codemod.source.project import Project
from ...codemod.torch.autocast import (
    Autocast,
    dtype_scenarios,
    is_float32_island,
    runs_without_gradients,
    training_autocasts,
)
from ...codemod.torch.dtypes import FP16
from ...codemod.torch.scalers import scalers
from .add_scaler import LossStep, fix

SCALING_WORDS = (
    "scaler",
    "loss_scal",
    "lossscal",
    "scale_loss",
    "scaled_loss",
    "scale_factor_loss",
    "accelerat",
    "fabric",
    "deepspeed",
    "lightning",
    "apex",
    "colossal",
    "megatron",
    "msamp",
)
"""Parts of identifiers that say: somebody else may scale the loss."""
OTHER_SCALERS = ("standardscaler", "minmaxscaler", "robustscaler", "maxabsscaler")
"""Scalers of data, not of gradients."""


def check(project: Project) -> Iterator[Finding]:
    for region in training_autocasts(project):
        if region.form != "with" or not _computes_in_half(project, region) or runs_without_gradients(region):
            continue
        step = training_step(project, region)
        if step is not None and not scales_somehow(region.module):
            yield _finding(project, region, step)


def _computes_in_half(project: Project, region: Autocast) -> bool:
    """Whether the region certainly computes in float16 when it runs on CUDA."""
    if region.device not in ("cuda", None) or is_float32_island(project, region):
        return False
    if region.device is None and "cuda" not in region.module.document.text:
        return False
    if {item.value for item in dtype_scenarios(project, region)} != {FP16}:
        return False
    tests = [guard.test for guard in guards(region.module, region.node)]
    tests += [region.enabled_node] if region.enabled_node is not None else []
    return not any(speaks_of_precision(project, region.module, test) for test in tests)


def training_step(project: Project, region: Autocast) -> LossStep | None:
    """The ``backward`` of a loss made in the region, and the ``step`` after it, in the region's own function."""
    module, function = region.module, function_of(region.module, region.node)
    block = module.statement_of(region.node)
    made = {node.id for node in ast.walk(block) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    calls = [call for call in calls_of(module, function) if isinstance(call.func, ast.Attribute)]
    for call in calls:
        if call.func.attr != "backward" or position(call) < position(block):  # type: ignore[attr-defined]
            continue
        loss = _loss_name(call)
        if loss not in made or _is_multiplied(function, loss) or exclusive(module, call, region.node):
            continue
        steps = [item for item in calls if _steps(item) and not exclusive(module, item, call)]
        if steps and not any(_is_own_optimizer(project, module, item) for item in steps):
            return LossStep(module, function, region, call, tuple(steps))
    return None


def _loss_name(call: ast.Call) -> str:
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    if isinstance(receiver, ast.BinOp) and isinstance(receiver.op, ast.Div):
        receiver = receiver.left
    return receiver.id if isinstance(receiver, ast.Name) else ""


def _is_multiplied(function: ast.AST, loss: str) -> bool:
    """``loss * 1024`` or ``loss * scale``: scaling by hand."""
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = [node.left, node.right]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
            sides = [node.target, node.value]
        else:
            continue
        texts = [ast.unparse(side) for side in sides]
        large = any(isinstance(side, ast.Constant | ast.BinOp) and _is_large(side) for side in sides)
        if loss in texts and (large or any("scal" in text.lower() for text in texts)):
            return True
    return False


def _is_large(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow)
    value = node.value if isinstance(node, ast.Constant) else 0
    return isinstance(value, int | float) and value >= 64


def _steps(call: ast.Call) -> bool:
    chain = attribute_chain(call.func)
    return chain is not None and len(chain) > 1 and chain[-1] == "step" and "opt" in chain[-2].lower()


def _is_own_optimizer(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether the optimizer is, or may be, an object of the project that scales by itself."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    scope = module.scope_of(call)
    chain = attribute_chain(receiver) or [""]
    values: list[ast.expr | None] = []
    if isinstance(receiver, ast.Name):
        values = [item.value for item in scope.lookup(receiver.id)]
    elif len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
        values = [value for value, _ in attribute_assignments(module, scope.enclosing_class, chain[1])]
    made_here = [item for item in values if isinstance(item, ast.Call)]
    if not made_here:
        return bool(scalers(project))
    return any(class_of(project, module, item.func) is not None for item in made_here)


def scales_somehow(module: ModuleNames) -> bool:
    return any(
        any(word in name for word in SCALING_WORDS) and name not in OTHER_SCALERS
        for name in (text.lower() for node in module.nodes for text in _identifiers(node))
    )


def _identifiers(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.arg | ast.keyword):
        yield node.arg or ""
    elif isinstance(node, ast.alias):
        yield from (node.name, node.asname or "")
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name


def _finding(project: Project, region: Autocast, step: LossStep) -> Finding:
    how = "float16" if region.dtype_node is not None else "float16 (autocast's default on CUDA)"
    evidence = [
        region.module.place(region.node, f"autocast computes in {how}"),
        region.module.place(step.backward, "the unscaled backward"),
        region.module.place(step.steps[0], "the optimizer steps here"),
    ]
    added = fix(project, step)
    return rule.at(
        region.module,
        region.node,
        "the training step computes in float16 without loss scaling: gradients below 6e-8 become zero",
        evidence,
        [added] if added is not None else [],
    )


rule = Rule.of("PF102", check)
