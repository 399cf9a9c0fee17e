"""``scaler.step(optimizer, closure)``: the closure runs inside the step, behind the unscaling.

By name it raises ``RuntimeError: Closure use is not currently supported if GradScaler is enabled.``; by position it is
passed on (``torch/amp/grad_scaler.py``, PyTorch 2.13).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.creations import creations_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep

RAISES = "GradScaler takes no closure: the step raises RuntimeError"
UNSCALED = (
    "the closure runs inside the step, where nothing unscales its gradients: the first step raises AssertionError where"
    " no loss was scaled before, and else the optimizer steps with gradients that are multiplied by the loss scale"
)


def closures(project: Project, each: ScalerStep) -> Iterator[Draft]:
    """Steps with a closure by name, or with one by position that scales a loss."""
    scaler = each.scaler.module.place(each.scaler.call, "the scaler")
    for call in each.of("step"):
        named = next((item.value for item in call.keywords if item.arg == "closure"), None)
        if named is not None and not (isinstance(named, ast.Constant) and named.value is None):
            if is_reached(project, each.module, call):
                yield Draft.at(each.module, call, RAISES, [scaler])
        elif len(call.args) == 2 and _is_plain(project, each, call):
            scales = _scaled_in(each, call.args[1])
            if scales is not None and is_reached(project, each.module, call):
                yield Draft.at(
                    each.module, call, UNSCALED, [each.module.place(scales, "the loss is scaled here"), scaler]
                )


def _is_plain(project: Project, each: ScalerStep, call: ast.Call) -> bool:
    """Whether torch makes the optimizer, and none that divides by the scale in its own step (``fused=True``)."""
    made = creations_of(project, each.module, call.args[0])
    names = [item.module.qualified(item.call.func) or "" for item in made]
    fused = any(keyword.arg in ("fused", None) for item in made for keyword in item.call.keywords)
    return bool(made) and all(name.startswith("torch.optim.") for name in names) and not fused


def _scaled_in(each: ScalerStep, closure: ast.expr) -> ast.Call | None:
    """Where the function that an argument names scales a loss, and unscales nothing."""
    module = each.module
    function = _function(module, closure)
    if function is None:
        return None
    uses = [use for use in each.scaler.uses if use.module is module and use.call in set(ast.walk(function))]
    scales = [use.call for use in uses if use.kind == "scale"]
    return scales[0] if scales and all(use.kind == "scale" for use in uses) else None


def _function(module: ModuleNames, node: ast.expr) -> ast.AST | None:
    if isinstance(node, ast.Lambda):
        return node
    bindings = module.bindings_of(node) if isinstance(node, ast.Name) else []
    alone = bindings[0].node if len(bindings) == 1 else None
    return alone if isinstance(alone, FunctionNode) else None
