"""A region around the backward pass and the step alone: the forward pass has run outside of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from ....codemod.model import Draft
from ....codemod.purpose.imports import importers_of, reached_from
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.steps import may_be_autocast
from ....codemod.python.arguments import receiver_of
from ....codemod.python.bindings import values_at
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts_in, checked_autocasts
from .never_read import MAX_USED, is_only_way

IN_STEPS = (
    "backward", "scale", "step", "update", "unscale_", "zero_grad", "clip_grad_norm_", "clip_grad_value_", "parameters",
    "item", "get_last_lr", "get_scale", "append", "print", "set_description", "set_postfix",
)  # fmt: skip
"""What is called in a step, and computes nothing that autocast lowers."""
MESSAGE = "only the backward pass and the step run in this autocast: the forward pass before it runs in float32"


def around_backward(project: Project) -> Iterator[Draft]:
    """Where no other region can be around the forward pass."""
    for autocast in checked_autocasts(project):
        backward = _only_backward(autocast) if autocast.form == "with" else None
        if backward is None or not is_only_way(project, autocast) or _may_enter_others(project, autocast):
            continue
        module, loss = autocast.module, receiver_of(backward)
        loss = loss.args[0] if isinstance(loss, ast.Call) and loss.args else loss  # ``scaler.scale(loss)``
        made = values_at(module, loss) if isinstance(loss, ast.Name) else []
        forward = [item for item in made if item is not None and any(map(_is_call, ast.walk(item)))]
        if forward and is_reached(project, module, autocast.node):
            place = module.place(forward[0], "the loss is computed here, outside of it")
            yield Draft.at(module, autocast.node, MESSAGE, (place,))


def _only_backward(autocast: Autocast) -> ast.Call | None:
    """The backward pass in a region that holds nothing else that autocast may lower."""
    block = autocast.module.statement_of(autocast.node)
    inside = [item for each in getattr(block, "body", ()) for item in ast.walk(each)]
    calls = [item for item in inside if _is_call(item)]
    lowers = any(isinstance(item, ast.MatMult | ast.Lambda) for item in inside)
    if lowers or not all(last_name(call.func) in IN_STEPS for call in calls):
        return None
    if any(_runs_closure(autocast.module, call) for call in calls):
        return None
    return next((call for call in calls if last_name(call.func) == "backward"), None)


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call)


def _runs_closure(module: ModuleNames, call: ast.Call) -> bool:
    """``optimizer.step(closure)``, which runs the model."""
    given = [item for each in call.args for item in module.bindings_of(each)]
    return last_name(call.func) == "step" and any(item.kind == "function" for item in given)


def _may_enter_others(project: Project, autocast: Autocast) -> bool:
    """Whether the file, one that it uses, or one that uses it, may enter autocast in another place."""
    module = autocast.module
    others = (item.context_expr for item in module.of_type(ast.withitem) if item.context_expr is not autocast.node)
    near = reached_from(project, [module, *importers_of(project, module)], MAX_USED)
    used = (item for each in near for item in autocasts_in(project, each))
    return any(map(may_be_autocast, others)) or any(item.node is not autocast.node for item in used)
