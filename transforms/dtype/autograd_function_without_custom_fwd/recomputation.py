"""Functions that compute their forward pass again in backward: checkpoints of the project's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.names import FunctionNode, attribute_chain
from ..custom_functions import CustomFunction


def recomputation(function: CustomFunction) -> ast.Call | None:
    """The call in ``backward`` that runs under ``enable_grad`` what ``forward`` was given and has run."""
    kept = {name for name, value in _kept(function) if _runs(function.forward, function.forward_context, name, value)}
    named = [[function.context, name] for name in kept]
    for node in ast.walk(function.backward):
        if isinstance(node, ast.Assign) and attribute_chain(node.value) in named:
            named += [[target.id] for target in node.targets if isinstance(target, ast.Name)]
    for node in ast.walk(function.backward):
        if isinstance(node, ast.With) and any("enable_grad" in ast.unparse(item.context_expr) for item in node.items):
            for call in (item for part in node.body for item in ast.walk(part) if isinstance(item, ast.Call)):
                if attribute_chain(call.func) in named:
                    return call
    return None


def _kept(function: CustomFunction) -> Iterator[tuple[str, str]]:
    """The inputs that the context keeps as they are: ``ctx.run = run``."""
    inputs = {item.arg for item in function.inputs}
    for node in ast.walk(function.forward):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in inputs:
            for chain in map(attribute_chain, node.targets):
                if chain is not None and len(chain) == 2 and chain[0] == function.forward_context:
                    yield chain[1], node.value.id


def _runs(forward: FunctionNode, context: str, name: str, value: str) -> bool:
    called = (attribute_chain(node.func) for node in ast.walk(forward) if isinstance(node, ast.Call))
    return any(chain in ([context, name], [value]) for chain in called)
