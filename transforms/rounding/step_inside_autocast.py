"""The backward pass, or the optimizer's step, runs inside the autocast region

## What goes wrong

Nothing raises. PyTorch's documentation advises against backward passes under autocast: backward operations run in the
dtype of the forward ones by themselves, and what else runs there is lowered too: the backward of an
`autograd.Function` without `custom_bwd`, gradient hooks, the products of a second-order optimizer, an average of
weights. Measured with PyTorch 2.13 on a CPU: the gradient of a Function that multiplies two float32 matrices in its
backward is off by 0.0 outside of a bfloat16 region, and by 0.4 % of its size inside of it. In pytorch/pytorch#120376
a loop wholly inside a region learned visibly worse than the same loop with its forward pass alone in it.

## Why

A region is meant for the forward pass and the loss (torch.amp documentation: "Backward passes under autocast are not
recommended").

## Fix

`outside` [unsafe]: the statements from the backward pass on move behind the `with`, where nothing but the step
follows in it. Unsafe, since what autocast lowered there by mistake is then computed in the dtype of its operands.

## Not flagged

Regions that are off (`enabled=False`) or of float32; a region closed before the backward pass; `torch.autograd.grad`
for a gradient penalty, whose result the loss needs; what a trainer (Lightning, DeepSpeed's engine) runs by itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ...codemod.model import Finding, Fix, Rule, Span
from ...codemod.purpose.entered import regions_around
from ...codemod.purpose.files import purpose_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, names_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import Autocast, is_float32_island

ENGINES = ("engine", "deepspeed", "ds_model", "model_engine")
"""Objects whose ``backward`` is a library's own."""
STEPPING = (
    *("backward", "step", "zero_grad", "unscale_", "update", "scale", "item", "detach", "clip_grad_norm_"),
    *("clip_grad_value_", "parameters", "append", "format", "print", "update_ema", "ema_update", "set_postfix"),
)
"""What may stand behind a backward pass and is no forward pass."""


def check(project: Project) -> Iterator[Finding]:
    for document in project.checked_documents(("autocast",), (".backward(",)):
        module = names_of(project, document)
        seen: set[ast.AST] = set()
        for call in [] if purpose_of(document.path).is_left_alone else module.calls_by_name.get("backward", []):
            region = _region(project, module, call) if _runs_autograd(call) else None
            if region is not None and region.node not in seen:
                seen.add(region.node)
                yield _finding(module, call, region)


def _runs_autograd(call: ast.Call) -> bool:
    """``loss.backward()``, ``scaler.scale(loss).backward()``, ``accelerator.backward(loss)``."""
    chain = attribute_chain(call.func) or []
    return isinstance(call.func, ast.Attribute) and not any(word in part for part in chain[:-1] for word in ENGINES)


def _region(project: Project, module: ModuleNames, call: ast.Call) -> Autocast | None:
    """The innermost region around the call, where it lowers something."""
    region = next(regions_around(project, module, call), None)
    if region is None or is_float32_island(project, region) or region.form not in ("with", "decorator", "value"):
        return None
    return region


def _finding(module: ModuleNames, call: ast.Call, region: Autocast) -> Finding:
    block = _block_of(module, call, region)
    others = _steps_inside(module, call, block) if block is not None else []
    also = f", and so do {', '.join(others)}" if others else ""
    message = (
        f"the backward pass runs inside the autocast region{also}: a region is for the forward pass and the loss, and"
        " lowers whatever else is computed in it"
    )
    evidence = (region.module.place(region.node, "the region is opened here"),)
    fix = _moved(module, block, call) if block is not None else None
    return rule.at(module, call, message, evidence, [fix])


def _block_of(module: ModuleNames, call: ast.Call, region: Autocast) -> ast.With | None:
    """The ``with`` around the call that enters the region."""
    for parent in module.ancestors(call):
        if isinstance(parent, FunctionNode):
            return None
        if isinstance(parent, ast.With) and any(region.node in ast.walk(item.context_expr) for item in parent.items):
            return parent
    return None


def _steps_inside(module: ModuleNames, call: ast.Call, block: ast.With) -> list[str]:
    """The clipping and the step of an optimizer that stand in the block too, as they are written."""
    inner = [item for item in ast.walk(block) if isinstance(item, ast.Call) and item is not call]
    names = [".".join(attribute_chain(item.func) or []) for item in inner]
    wanted = [name for name in names if _is_step(name)]
    return list(dict.fromkeys(wanted))


def _is_step(name: str) -> bool:
    owner, _, last = name.rpartition(".")
    return last.startswith("clip_grad") or (
        last == "step" and any(word in owner.lower() for word in ("optim", "scaler", "opt"))
    )


# --- the fix ----------------------------------------------------------------------------------------------------------


def _moved(module: ModuleNames, block: ast.With, call: ast.Call) -> Fix | None:
    """The statements from the backward pass on, moved behind the block."""
    first = next((index for index, item in enumerate(block.body) if item is _child(module, call, block)), 0)
    moved = block.body[first:]
    if first == 0 or len(block.items) != 1 or not all(_is_stepping(item) for item in moved):
        return None
    text = _text(module, moved)
    if text is None:
        return None
    edits = [*(module.remove(item) for item in moved), module.insert(block, text, "after")]
    message = "the backward pass and the step move behind the region; what autocast lowered in them keeps its dtype"
    return Fix.unsafe("outside", message, *edits)


def _child(module: ModuleNames, node: ast.AST, block: ast.With) -> ast.AST:
    while module.parents[node] is not block:
        node = module.parents[node]
    return node


def _is_stepping(statement: ast.stmt) -> bool:
    """Whether all that a statement calls belongs to a step, and it binds nothing that is made of a forward pass."""
    if not isinstance(statement, ast.Expr | ast.If | ast.AugAssign | ast.Assign):
        return False
    calls = [item for item in ast.walk(statement) if isinstance(item, ast.Call)]
    blocks = (ast.With, ast.For, ast.While, ast.Continue, ast.Break, ast.Return)
    leaves = any(isinstance(item, blocks) for item in ast.walk(statement))
    return not leaves and all(_last_name(item) in STEPPING for item in calls)


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _text(module: ModuleNames, moved: Sequence[ast.stmt]) -> str | None:
    """The lines of the statements without their indentation; None where something else stands on these lines."""
    first, last = module.span(moved[0]), module.span(moved[-1])
    lines = module.source(Span(first.row, 1, last.end_row, last.end_column)).splitlines()
    margin = lines[0][: first.column - 1]
    if margin.strip() or any(line.strip() and not line.startswith(margin) for line in lines) or _holds_long_text(moved):
        return None
    return "\n".join(line[len(margin) :] for line in lines)


def _holds_long_text(moved: Sequence[ast.stmt]) -> bool:
    """Whether a string goes over several lines, whose indentation is part of it."""
    inner = (node for item in moved for node in ast.walk(item) if isinstance(node, ast.Constant | ast.JoinedStr))
    return any(node.end_lineno != node.lineno for node in inner)


rule = Rule.of("PF806", check)
