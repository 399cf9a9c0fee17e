"""Which number an expression certainly is: literals, arithmetic on them, named constants, the limits of a dtype."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

from ...codemod.python.bindings import self_stores
from ...codemod.python.names import Binding, ModuleNames, attribute_chain, definition_of
from ...codemod.source.project import Project

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
_MAX_DEPTH = 6
_MAX_BINDINGS = 3
"""A name that is bound more often is no constant."""


def number_of(project: Project, module: ModuleNames, node: ast.expr, depth: int = 0) -> float | None:
    """The number ``node`` stands for; None where the source does not say. Infinities count as numbers."""
    if depth > _MAX_DEPTH:
        return None
    if isinstance(node, ast.Constant):
        plain = isinstance(node.value, int | float) and not isinstance(node.value, bool)
        return _float(node.value) if plain else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = number_of(project, module, node.operand, depth + 1)
        return -value if value is not None and isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return _arithmetic(project, module, node, depth)
    if isinstance(node, ast.Call):
        return _of_text(module, node)
    if isinstance(node, ast.Attribute):
        limit = limit_of(module, node)
        return limit if limit is not None else _named(project, module, node, depth)
    return _named(project, module, node, depth) if isinstance(node, ast.Name) else None


def _float(value: object) -> float | None:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def _arithmetic(project: Project, module: ModuleNames, node: ast.BinOp, depth: int) -> float | None:
    compute = _OPERATORS.get(type(node.op))
    left = number_of(project, module, node.left, depth + 1)
    right = number_of(project, module, node.right, depth + 1)
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


def _named(project: Project, module: ModuleNames, node: ast.Name | ast.Attribute, depth: int) -> float | None:
    """The value of a constant: every binding of the name is the same number."""
    chain = attribute_chain(node)
    scope = module.scope_of(node)
    if chain is None:
        return None
    if len(chain) == 2 and chain[0] in ("self", "cls") and scope.enclosing_class is not None:
        stores = self_stores(module, scope.enclosing_class, chain[1])
        return _agreed([_value(project, module, value, depth) for value, _ in stores[: _MAX_BINDINGS + 1]])
    bindings = scope.lookup(chain[0]) if len(chain) == 1 else []
    if not bindings or bindings[0].kind == "import":
        defined = definition_of(project, module, node)
        if defined is None:
            return None
        module, bindings = defined[0], defined[0].module_scope.lookup(defined[1])
    return _agreed([_bound(project, module, binding, depth) for binding in bindings[: _MAX_BINDINGS + 1]])


def _bound(project: Project, module: ModuleNames, binding: Binding, depth: int) -> float | None:
    return _value(project, module, binding.value if binding.kind == "assign" else None, depth)


def _value(project: Project, module: ModuleNames, value: ast.expr | None, depth: int) -> float | None:
    return number_of(project, module, value, depth + 1) if value is not None else None


def _agreed(values: list[float | None]) -> float | None:
    return values[0] if 0 < len(values) <= _MAX_BINDINGS and len(set(values)) == 1 else None
