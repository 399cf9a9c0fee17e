"""Penalties of gradients that ``torch.autograd.grad`` takes of a scaled loss, and that nothing divides by the scale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.arguments import argument, receiver_of
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import calls_of, position
from ....codemod.torch.scaler_steps import ScalerStep, passes_of
from ....codemod.torch.scalers import Scaler

DIVIDING = ("div", "div_", "divide", "true_divide", "normalize", "cosine_similarity")
"""Calls behind which the scale may be gone."""
MEASURING = ("norm", "pow", "square", "abs")
TORCH_NORMS = ("torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm", "torch.pow", "torch.square")
HIDING = ("get_scale", "private", "escaped", "bound-method", "method", "stored", "argument", "called")
"""Uses of a scaler by which somebody may divide by its scale."""


def scaled_penalties(scaler: Scaler) -> Iterator[tuple[ModuleNames, ast.Call, ast.Call]]:
    """Such calls of ``grad``, with the loss that is scaled behind them."""
    for step in passes_of(scaler) if not scaler.uses_of(*HIDING) else ():
        for call in calls_of(step.module, step.function):
            later = [item for item in step.of("scale") if position(item) > position(call)]
            if later and _is_of_scaled(step, call) and _is_measured(step, call):
                yield step.module, call, later[0]


def _is_of_scaled(step: ScalerStep, call: ast.Call) -> bool:
    """``grad(scaler.scale(loss), x, create_graph=True)``: only with a graph of their own they go into a loss."""
    outputs, graph = argument(call, "outputs", position=0), argument(call, "create_graph", position=4)
    if step.module.qualified(call.func) != "torch.autograd.grad" or outputs is None:
        return False
    is_kept = isinstance(graph, ast.Constant) and graph.value is True
    return is_kept and (only_value(step.module, outputs) or outputs) in step.of("scale")


def _is_measured(step: ScalerStep, call: ast.Call) -> bool:
    """Whether a norm or a power of the gradients is taken, and nothing may divide them before."""
    statement = step.module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    names = {item.id for item in ast.walk(target) if isinstance(item, ast.Name)} if target is not None else set()
    nodes = list(ast.walk(step.function))
    for item in nodes:
        if isinstance(item, ast.For | ast.comprehension) and _names_in(item.iter) & names:
            names |= _names_in(item.target)
    stores = [item.id for item in nodes if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)]
    divided = (item.left for item in nodes if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Div))
    if any(stores.count(name) > 1 for name in names) or any(_names_in(item) & names for item in divided):
        return False
    calls = [item for item in nodes if isinstance(item, ast.Call)]
    if any(getattr(item.func, "attr", getattr(item.func, "id", "")) in DIVIDING for item in calls):
        return False
    return any(_measured(step.module, item) & names for item in nodes)


def _measured(module: ModuleNames, node: ast.AST) -> set[str]:
    """The name of which a node takes a norm or a power."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _names_in(node.left) if isinstance(node.left, ast.Name) else set()
    if not isinstance(node, ast.Call):
        return set()
    measured = (
        node.args[0] if module.qualified(node.func) in TORCH_NORMS and node.args else receiver_of(node, *MEASURING)
    )
    while isinstance(measured, ast.Call) and isinstance(measured.func, ast.Attribute):
        measured = measured.func.value  # grad.view(n, -1).norm(2, dim=1)
    return {measured.id} if isinstance(measured, ast.Name) else set()


def _names_in(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
