"""Layers that are fed the very same tensor: where the weights of one are float32, those of another 16-bit, one raises.

So nothing has to be known of the tensor itself: ``self.q_proj(x)`` beside ``self.k_proj(x)``.
"""

from __future__ import annotations

import ast

from ..python.names import ModuleNames
from .frame import Autocasting, Frame, Operand
from .lattice import Atom, Value
from .meetings import record

CONDITIONAL = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)


def feed(frame: Frame, node: ast.Call, operand: ast.expr, value: Value, weights: tuple[Atom, ...]) -> None:
    """Note that a layer that refuses a mix takes ``operand``, of whose dtype nothing is known."""
    if not frame.is_special or frame.autocast.state is Autocasting.ON or not isinstance(operand, ast.Name):
        return
    if value.atoms or len(weights) != 1:
        return
    for other, called, weight in frame.fed.get(operand.id, []):
        wide, narrow = (weights[0], weight) if weights[0].is_of_part else (weight, weights[0])
        if wide.is_of_part and not narrow.is_of_part and narrow.is_half and _same(frame.module, operand, other):
            part, rest = (node.func, called) if wide is weights[0] else (called, node.func)
            record(frame, node, "module", "raises", Operand(part, wide), Operand(rest, narrow), "")
    frame.fed.setdefault(operand.id, []).append((operand, node.func, weights[0]))


def _same(module: ModuleNames, one: ast.Name, other: ast.Name) -> bool:
    """Whether both read one binding, and both are read whenever one is."""
    first, second = sorted((module.statement_of(other), module.statement_of(one)), key=lambda item: item.lineno)
    if module.parents.get(first) is not module.parents.get(second) or one is other:
        return False
    if any(_is_conditional(module, item) for item in (one, other)):
        return False
    bound = [getattr(item.node, "lineno", 0) for item in module.scope_of(one).lookup(one.id)]
    return not any(first.lineno <= line < second.lineno for line in bound) or first is second


def _is_conditional(module: ModuleNames, node: ast.AST) -> bool:
    while not isinstance(node, ast.stmt):
        if isinstance(node, CONDITIONAL):
            return True
        parent = module.parents.get(node)
        if parent is None:
            return True
        node = parent
    return False
