"""The learning rates that groups of parameters have of their own: ``[{"params": p, "lr": 1e-5}]``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.half.half_weights import listed, models_of
from ...codemod.python.names import ModuleNames

MAX_HOPS = 4


def rates_of_groups(module: ModuleNames, parameters: ast.expr, model: str) -> list[ast.expr | None]:
    """What each group says of its rate; None for one that has the optimizer's, or where there are no groups.

    Of the groups of ``model`` alone, where some are known to be.
    """
    groups = list(_groups(module, parameters, 0))
    own = [rate for rate, held in groups if model in _names(module, held)]
    return own or [rate for rate, _ in groups] or [None]


def _names(module: ModuleNames, parameters: ast.expr) -> list[str]:
    return [ast.unparse(item) for item in models_of(module, parameters) if item is not None]


def _groups(module: ModuleNames, node: ast.expr, hops: int) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    if isinstance(node, ast.Dict):
        entries = {key.value: value for key, value in zip(node.keys, node.values, strict=True) if _is_key(key)}  # type: ignore[union-attr]
        if "params" in entries:
            yield entries.get("lr"), entries["params"]
    elif isinstance(node, ast.List | ast.Tuple):
        for item in node.elts:
            yield from _groups(module, item, hops)
    elif isinstance(node, ast.Name) and hops < MAX_HOPS:
        for value in listed(module, node):
            yield from _groups(module, value, hops + 1)


def _is_key(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant)
