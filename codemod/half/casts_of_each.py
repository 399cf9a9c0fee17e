"""Casts of all parts of a model: a loop over its parameters, or a function that ``Module.apply`` runs on each."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..python.names import ModuleNames, attribute_chain
from ..torch.api import CASTS

ALL = ("parameters", "modules")


def cast_of_each(module: ModuleNames, statement: ast.stmt, name: str) -> ast.Call | None:
    """The cast that ``for p in model.parameters(): p.data = p.data.half()`` or ``model.apply(f)`` does to all parts."""
    if isinstance(statement, ast.For) and _is_over(statement.iter, name, ALL):
        return _only_cast(statement.body)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or not _is_method(call, name, ("apply",)) or len(call.args) != 1:
        return None
    given = call.args[0]
    if isinstance(given, ast.Lambda):
        return given.body if isinstance(given.body, ast.Call) and _is_cast(given.body) else None
    bindings = module.scope_of(given).lookup(given.id) if isinstance(given, ast.Name) else []
    function = bindings[0].node if len(bindings) == 1 else None
    return _only_cast(function.body) if isinstance(function, ast.FunctionDef) else None


def _is_over(node: ast.expr, name: str, methods: Sequence[str]) -> bool:
    return isinstance(node, ast.Call) and not node.args and _is_method(node, name, methods)


def _is_method(call: ast.Call, name: str, methods: Sequence[str]) -> bool:
    func = call.func
    return isinstance(func, ast.Attribute) and func.attr in methods and ast.unparse(func.value) == name


def _only_cast(body: Sequence[ast.stmt]) -> ast.Call | None:
    """The cast of a body that does nothing else: ``m.half()``, ``p.data = p.data.to(dtype)``."""
    only = body[0] if len(body) == 1 else None
    value = only.value if isinstance(only, ast.Assign | ast.Expr) else None
    if not isinstance(value, ast.Call) or not _is_cast(value) or not isinstance(value.func, ast.Attribute):
        return None
    stored = ast.unparse(only.targets[0]) if isinstance(only, ast.Assign) else ast.unparse(value.func.value)
    return value if stored == ast.unparse(value.func.value) else None


def _is_cast(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in CASTS and bool(attribute_chain(call.func))
