"""Which number an expression certainly is: literals, arithmetic on them, named constants, the limits of a dtype."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable
from typing import TypeAlias

from ..source.project import Project
from .names import ModuleNames
from .trace import Domain, Trace, trace

FLOAT32_MAX = 3.4028234663852886e38
FLOAT64_MAX = 1.7976931348623157e308
_LIMITS = {"float32": FLOAT32_MAX, "float": FLOAT32_MAX, "float64": FLOAT64_MAX, "double": FLOAT64_MAX}
_OPERATORS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
NumberTrace: TypeAlias = "Trace[float | None]"


def number_of(project: Project, module: ModuleNames, node: ast.expr) -> float | None:
    """The number ``node`` certainly is; None where the source does not say. Infinities count as numbers."""
    return _only(trace(project, module, node, NUMBERS))


def _only(values: Iterable[float | None]) -> float | None:
    found = tuple(values)
    return found[0] if len(found) == 1 else None


def _leaf(question: NumberTrace, module: ModuleNames, node: ast.expr) -> Iterable[float | None] | None:
    if isinstance(node, ast.Constant):
        plain = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return (_float(node.value) if plain else None,)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _only(question.of(module, node.operand))
        return (-value if value is not None and isinstance(node.op, ast.USub) else value,)
    if isinstance(node, ast.BinOp):
        return (_arithmetic(question, module, node),)
    if isinstance(node, ast.Call):
        value = _of_text(module, node)
        return (value,) if value is not None else None
    limit = limit_of(module, node)
    return (limit,) if limit is not None else None


NUMBERS: Domain[float | None] = Domain(_leaf, lambda *_gap: (None,))
"""A number; None where the source does not say."""


def _float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _arithmetic(question: NumberTrace, module: ModuleNames, node: ast.BinOp) -> float | None:
    compute = _OPERATORS.get(type(node.op))
    left, right = _only(question.of(module, node.left)), _only(question.of(module, node.right))
    if compute is None or left is None or right is None:
        return None
    try:
        return compute(left, right)
    except (ArithmeticError, ValueError):
        return None


def _of_text(module: ModuleNames, node: ast.Call) -> float | None:
    """``float("-1e9")``."""
    named = isinstance(node.func, ast.Name) and node.func.id == "float" and not module.scope_of(node).lookup("float")
    only = node.args[0] if named and len(node.args) == 1 and not node.keywords else None
    return _float(only.value) if isinstance(only, ast.Constant) and not isinstance(only.value, bool) else None


def limit_of(module: ModuleNames, node: ast.expr) -> float | None:
    """``torch.finfo(torch.float32).min`` and its like, of the types wider than 16 bits."""
    dtype = finfo_dtype(module, node)
    name = (module.qualified(dtype) or "").rpartition(".")[2] if dtype is not None else ""
    if isinstance(dtype, ast.Constant) and isinstance(dtype.value, str):
        name = dtype.value
    limit = _LIMITS.get(name)
    return limit if limit is None or (isinstance(node, ast.Attribute) and node.attr == "max") else -limit


def finfo_dtype(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """The ``x`` of ``torch.finfo(x).min`` or ``.max`` (NumPy's ``finfo`` too)."""
    if not isinstance(node, ast.Attribute) or node.attr not in ("min", "max") or not isinstance(node.value, ast.Call):
        return None
    called = module.qualified(node.value.func)
    right = called in ("torch.finfo", "numpy.finfo") and len(node.value.args) == 1 and not node.value.keywords
    return node.value.args[0] if right else None
