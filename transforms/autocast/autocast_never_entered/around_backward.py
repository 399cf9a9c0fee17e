"""A region around the backward pass and the step, or the loss, alone: the forward pass has run outside of it."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TypeGuard

from ....codemod.model import Draft
from ....codemod.purpose.given import is_run
from ....codemod.purpose.imports import importers_of, reached_from
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.steps import calls_beside, may_be_autocast
from ....codemod.python.arguments import receiver_of
from ....codemod.python.bindings import values_at
from ....codemod.python.creations import known_creations
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.paths import position
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts_in, checked_autocasts, runs_without_gradients
from ....codemod.torch.tables.layers import LAYERS
from ....codemod.torch.tables.operations import policy_of
from .never_read import MAX_USED, is_only_way

IN_STEPS = (
    "backward", "scale", "step", "update", "unscale_", "zero_grad", "clip_grad_norm_", "clip_grad_value_", "parameters",
    "item", "get_last_lr", "get_scale", "append", "print", "set_description", "set_postfix",
)  # fmt: skip
"""What is called in a step, and computes nothing that autocast lowers."""
MAX_SUMS = 3
"""Sums of losses that are followed."""
MESSAGE = "only the backward pass and the step run in this autocast: the forward pass before it runs in float32"


SHAPING = (
    "view", "reshape", "squeeze", "unsqueeze", "flatten", "transpose", "permute", "contiguous", "size", "to", "cuda",
    "float", "long", "mean", "sum", "detach",
)  # fmt: skip
"""What may be called beside a loss: nothing of it is lowered."""
LOSS = (
    "only the loss is in this autocast, which computes it in float32: the forward pass before it runs in float32, too"
)
HALVES = (".half(", ".bfloat16(", "torch_dtype", "default_dtype")
"""What a file says whose models may compute in 16 bits outside of autocast."""


def around_loss(project: Project) -> Iterator[Draft]:
    """The same for a region around the loss, which autocast computes in float32."""
    for autocast in checked_autocasts(project):
        loss = _only_losses(project, autocast) if autocast.form == "with" and autocast.device != "cpu" else None
        forward = _made_before(autocast, loss) if loss is not None else None
        if forward is None or not is_only_way(project, autocast) or _may_enter_others(project, autocast):
            continue
        near = reached_from(project, [autocast.module, *importers_of(project, autocast.module)], MAX_USED)
        is_half = any(word in each.document.text for each in near for word in HALVES)
        if not is_half and is_run(project, autocast.module, autocast.node):
            place = autocast.module.place(forward, "the forward pass is here, outside of it")
            yield Draft.at(autocast.module, autocast.node, LOSS, (place,))


def _made_before(autocast: Autocast, loss: ast.Call) -> ast.Call | None:
    """What made the first argument of a loss before the region, in a function that runs the backward pass."""
    module = autocast.module
    read = next((item for item in ast.walk(loss.args[0]) if isinstance(item, ast.Name)), None) if loss.args else None
    made = values_at(module, read) if read is not None else []
    calls = [item for item in made if _is_call(item) and position(item) < position(autocast.node)]
    known = [call for call in calls if last_name(call.func) not in dir(builtins)]
    return known[0] if len(known) == len(made) == 1 and calls_beside(module, autocast.node, "backward") else None


def _only_losses(project: Project, autocast: Autocast) -> ast.Call | None:
    """The first loss in a region that holds nothing but losses and what changes shapes."""
    inside = _inside(autocast)
    calls = [item for item in inside if _is_call(item)]
    losses = [call for call in calls if _is_loss(project, autocast.module, call)]
    others = [call for call in calls if call not in losses]
    is_plain = all(isinstance(call.func, ast.Attribute) and call.func.attr in SHAPING for call in others)
    lowers = any(isinstance(item, ast.MatMult | ast.Lambda | ast.With) for item in inside)
    return losses[0] if losses and is_plain and not lowers else None


def _is_loss(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call is a loss of torch that autocast on CUDA computes in float32."""
    package, _, name = (module.qualified(call.func) or "").rpartition(".")
    if package == "torch.nn.functional":
        return policy_of(name, "cuda") == "fp32" and name in _OF_LOSSES
    made = known_creations(project, module, call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ()
    names = [(each.module.qualified(each.call.func) or "").rpartition(".") for each in made]
    return bool(names) and all(each[0].startswith("torch.nn") and each[2] in _LOSSES for each in names)


_LOSSES = {name: row for name, row in LAYERS.items() if row.role == "loss" and row.autocast("cuda") == "fp32"}
_OF_LOSSES = frozenset(row.operation for row in _LOSSES.values())


def around_backward(project: Project) -> Iterator[Draft]:
    """Where no other region can be around the forward pass."""
    for autocast in checked_autocasts(project):
        backward = _only_backward(autocast) if autocast.form == "with" else None
        if backward is None or not is_only_way(project, autocast) or _may_enter_others(project, autocast):
            continue
        module, loss = autocast.module, receiver_of(backward)
        loss = loss.args[0] if isinstance(loss, ast.Call) and loss.args else loss  # ``scaler.scale(loss)``
        made = values_at(module, loss) if isinstance(loss, ast.Name) else []
        forward = [item for item in made if item is not None and _is_computed(module, item, MAX_SUMS)]
        if forward and is_reached(project, module, autocast.node):
            place = module.place(forward[0], "the loss is computed here, outside of it")
            yield Draft.at(module, autocast.node, MESSAGE, (place,))


def _is_computed(module: ModuleNames, node: ast.expr, hops: int) -> bool:
    """Whether a call makes a value, or a part of it: ``loss = first + 0.1 * second``."""
    if any(map(_is_call, ast.walk(node))):
        return True
    names = [item for item in ast.walk(node) if isinstance(item, ast.Name)] if hops else []
    made = (value for name in names for value in values_at(module, name) if value is not None)
    return any(_is_computed(module, value, hops - 1) for value in made)


def _only_backward(autocast: Autocast) -> ast.Call | None:
    """The backward pass in a region that holds nothing else that autocast may lower."""
    inside = _inside(autocast)
    calls = [item for item in inside if _is_call(item)]
    lowers = any(isinstance(item, ast.MatMult | ast.Lambda) for item in inside)
    if lowers or not all(last_name(call.func) in IN_STEPS for call in calls):
        return None
    if any(_runs_closure(autocast.module, call) for call in calls):
        return None
    return next((call for call in calls if last_name(call.func) == "backward"), None)


def _inside(autocast: Autocast) -> list[ast.AST]:
    block = autocast.module.statement_of(autocast.node)
    return [item for each in getattr(block, "body", ()) for item in ast.walk(each)]


def _is_call(node: ast.AST | None) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call)


def _runs_closure(module: ModuleNames, call: ast.Call) -> bool:
    """``optimizer.step(closure)``, which runs the model."""
    given = [item for each in call.args for item in module.bindings_of(each)]
    return last_name(call.func) == "step" and any(item.kind == "function" for item in given)


def _may_enter_others(project: Project, autocast: Autocast) -> bool:
    """Whether the file, one that it uses, or one that uses it, may enter autocast in another place."""
    module = autocast.module
    near = reached_from(project, [module, *importers_of(project, module)], MAX_USED)
    used = [item for each in near for item in autocasts_in(project, each) if item.node is not autocast.node]
    lowering = [item for item in used if not _is_aside(item)]
    known = {autocast.node, *(item.node for item in used)}
    others = (item.context_expr for item in module.of_type(ast.withitem) if item.context_expr not in known)
    return bool(lowering) or any(map(may_be_autocast, others))


def _is_aside(autocast: Autocast) -> bool:
    """Whether a region is another of the same kind, or one that no backward pass can run in."""
    return autocast.form == "with" and (_only_backward(autocast) is not None or runs_without_gradients(autocast))
