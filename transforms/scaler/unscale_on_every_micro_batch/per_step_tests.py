"""Which tests can come out differently from one training step to the next."""

from __future__ import annotations

import ast

from ....codemod.python.bindings import default_of
from ....codemod.python.functions import called_function
from ....codemod.python.names import Binding, attribute_chain, modules_with
from ....codemod.python.paths import function_of, guards
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep

FINITENESS = ("isfinite", "isnan", "isinf")
NORMS = ("clip_grad_norm_", "get_total_norm")
STEP_SWITCHES = (
    "need_update",
    "should_update",
    "should_step",
    "do_step",
    "do_update",
    "update_grad",
    "is_update_step",
    "sync_gradients",
    "is_last_batch",
    "last_batch",
    "end_of_accumulation",
    "accumulation_done",
    "is_accumulation_boundary",
)
"""Names that say "this pass ends an accumulation"."""
MAX_DEPTH = 3


def changes_per_step(project: Project, step: ScalerStep, test: ast.expr, depth: int = 0) -> bool:
    """Whether ``test`` certainly depends on the batch: index, gradients, loss, an accumulation switch."""
    losses = {ast.unparse(call.args[0]) for call in step.of("scale") if call.args}
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return True
        if isinstance(node, ast.Call) and _asks_the_batch(project, step, node, losses):
            return True
        if isinstance(node, ast.Attribute) and node.attr in STEP_SWITCHES:
            return True
        if isinstance(node, ast.Name) and _is_per_step(project, step, node, depth):
            return True
    return False


def _asks_the_batch(project: Project, step: ScalerStep, call: ast.Call, losses: set[str]) -> bool:
    name = (attribute_chain(call.func) or [call.func.attr if isinstance(call.func, ast.Attribute) else ""])[-1]
    if name in (*FINITENESS, *NORMS):
        return True
    own = called_function(project, step.module, call) is not None
    return own and any(ast.unparse(argument) in losses for argument in call.args)


def _is_per_step(project: Project, step: ScalerStep, node: ast.Name, depth: int) -> bool:
    bindings = step.module.bindings_of(node)
    if not bindings or function_of(step.module, node) is not bindings[0].scope.node:
        return False
    if all(item.kind == "parameter" for item in bindings):
        return node.id in STEP_SWITCHES and _is_passed(project, bindings[0])
    values = [item.value for item in bindings]
    if depth >= MAX_DEPTH or any(value is None for value in values):
        return False
    tests = [guard.test for item in bindings if _is_constant(item) for guard in guards(step.module, item.node)]
    asked = [*(value for value in values if value is not None), *tests]
    return any(changes_per_step(project, step, item, depth + 1) for item in asked)


def _is_constant(binding: Binding) -> bool:
    """Of a flag (``skip = True``) the conditions of the assignment say what it depends on."""
    return isinstance(binding.value, ast.Constant) and isinstance(binding.value.value, bool)


def _is_passed(project: Project, parameter: Binding) -> bool:
    """Whether the parameter has no default, or some call in the project names it."""
    if default_of(parameter) is None:
        return True
    for module in modules_with(project, (parameter.name,)):
        for call in module.calls:
            if any(item.arg == parameter.name for item in call.keywords):
                return True
    return False
