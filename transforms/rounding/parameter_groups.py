"""The learning rates that groups of parameters have of their own: ``[{"params": p, "lr": 1e-5}]``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.python.names import ModuleNames

MAX_HOPS = 4


def rates_of_groups(module: ModuleNames, parameters: ast.expr) -> list[ast.expr | None]:
    """What each group says of its rate; None for one that has the optimizer's, or where there are no groups."""
    return list(_rates(module, parameters, 0)) or [None]


def _rates(module: ModuleNames, node: ast.expr, hops: int) -> Iterator[ast.expr | None]:
    if isinstance(node, ast.Dict):
        entries = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if _is_key(key)}  # type: ignore[union-attr]
        if "params" in entries:
            yield entries.get("lr")
    elif isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from _rates(module, item, hops)
    elif isinstance(node, ast.Name) and hops < MAX_HOPS:
        for value in _values(module, node):
            yield from _rates(module, value, hops + 1)


def _is_key(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant)


def _values(module: ModuleNames, node: ast.Name) -> Iterator[ast.expr]:
    """What a name of groups is given, and what is added to it."""
    yield from (item.value for item in module.scope_of(node).lookup(node.id) if item.value is not None)
    for call in module.calls_by_name.get("append", []):
        func = call.func
        of_list = isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == node.id
        if of_list and module.scope_of(call) is module.scope_of(node):
            yield from call.args[:1]
