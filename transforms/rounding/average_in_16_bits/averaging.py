"""Statements that move an average to a weight: ``mul_().add_()``, ``lerp_``, ``d * a + (1 - d) * b``, two of them."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.arguments import receiver_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import Loops, position

TENSORS = ("parameters", "named_parameters", "state_dict")


@dataclass(frozen=True, slots=True, eq=False)
class Averaging:
    """One such statement."""

    decay: ast.expr
    between: tuple[str, ...]
    """The objects whose parameters the loop around it goes through."""
    lerped: tuple[ast.expr, ...] = ()


def averagings_in(module: ModuleNames, where: ast.AST) -> Iterator[Averaging]:
    """The averagings in some code, in source order."""
    moving = (*module.calls_by_name.get("lerp_", ()), *module.calls_by_name.get("add_", ()))
    for node in sorted((*moving, *module.of_type(ast.BinOp), *module.of_type(ast.AugAssign)), key=position):
        if where is not module.tree and where not in module.ancestors(node):
            continue
        if isinstance(node, ast.Call):
            decay, lerped = _of_call(node)
        elif isinstance(node, ast.BinOp):
            decay, lerped = _of_sum(node), ()
        else:
            decay, lerped = _of_statements(module, node), ()
        if decay is not None:
            yield Averaging(decay, tuple(_between(module, node)), lerped)


def _of_call(call: ast.Call) -> tuple[ast.expr | None, tuple[ast.expr, ...]]:
    """``a.mul_(d).add_(b, alpha=1 - d)`` gives ``d``; ``a.lerp_(b, 1 - d)`` too."""
    if receiver_of(call, "lerp_") is not None and len(call.args) == 2:
        return _rest(call.args[1]), (call.args[0],)
    inner = receiver_of(call, "add_")
    factors = inner.args if isinstance(inner, ast.Call) and receiver_of(inner, "mul_") is not None else []
    is_known = len(factors) == 1 and any(_is_rest_of(item, factors[0]) for item in ast.walk(call))
    return factors[0] if is_known else None, ()


def _rest(node: ast.AST) -> ast.expr | None:
    """``d`` of ``1 - d``."""
    one = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and isinstance(node.left, ast.Constant)
    return node.right if one and isinstance(node, ast.BinOp) and node.left.value == 1 else None  # type: ignore[attr-defined]


def _of_sum(node: ast.BinOp) -> ast.expr | None:
    """``d`` of ``d * a + (1 - d) * b``, in any order, and of ``0.999 * a + 0.001 * b``."""
    if not isinstance(node.op, ast.Add):
        return None
    sides = [item for item in (node.left, node.right) if isinstance(item, ast.BinOp) and isinstance(item.op, ast.Mult)]
    if len(sides) != 2:
        return None
    factors = [part for side in sides for part in (side.left, side.right)]
    for factor in factors:
        rest = _rest(factor)
        if rest is not None and any(ast.unparse(item) == ast.unparse(rest) for item in factors):
            return rest
    numbers = [item for item in factors if isinstance(item, ast.Constant) and isinstance(item.value, float)]
    whole = len(numbers) == 2 and abs(sum(item.value for item in numbers) - 1) < 1e-9  # type: ignore[misc]
    return max(numbers, key=lambda item: float(item.value)) if whole else None  # type: ignore[arg-type]


def _of_statements(module: ModuleNames, node: ast.AugAssign) -> ast.expr | None:
    """``d`` of ``a *= d`` with ``a += (1 - d) * b`` as the next statement."""
    block = getattr(module.parents[node], "body", [])
    before = block[block.index(node) - 1] if node in block[1:] and isinstance(node.op, ast.Add) else None
    if not isinstance(before, ast.AugAssign) or not isinstance(before.op, ast.Mult):
        return None
    same = ast.unparse(before.target) == ast.unparse(node.target)
    return before.value if same and any(_is_rest_of(item, before.value) for item in ast.walk(node.value)) else None


def _is_rest_of(node: ast.AST, decay: ast.expr) -> bool:
    """Whether this is ``1 - decay``, or the number that it is."""
    rest = _rest(node)
    numbers = [item.value for item in (node, decay) if isinstance(item, ast.Constant) and isinstance(item.value, float)]
    is_written_out = len(numbers) == 2 and math.isclose(sum(numbers), 1.0)
    return is_written_out or (rest is not None and ast.unparse(rest) == ast.unparse(decay))


def _between(module: ModuleNames, node: ast.AST) -> Iterator[str]:
    """``a`` and ``b`` of the loop ``for x, y in zip(a.parameters(), b)`` around the node; ``c`` of ``c[name]``."""
    yield from (ast.unparse(item.value) for item in ast.walk(node) if isinstance(item, ast.Subscript))
    for loop in module.ancestors(node):
        if isinstance(loop, Loops) and not isinstance(loop, ast.While):
            for call in (item for item in ast.walk(loop.iter) if isinstance(item, ast.Call)):
                if (owner := receiver_of(call, *TENSORS)) is not None:
                    yield ast.unparse(owner)
                elif isinstance(call.func, ast.Name) and call.func.id == "zip":
                    yield from (item.id for item in call.args if isinstance(item, ast.Name))
            return
