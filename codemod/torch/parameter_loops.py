"""Loops over the parameters or parts of a model: whether they may change what they go through."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.names import attribute_chain

READS = frozenset(
    (
        "numel",
        "size",
        "norm",
        "item",
        "clone",
        "detach",
        "cpu",
        "mean",
        "sum",
        "abs",
        "dim",
        "isnan",
        "isinf",
        "any",
        "all",
    )
)
"""Methods of parameters that leave them as they are."""


def changes_items(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """Whether a loop over something of the model ``name`` may give it another dtype, or other parameters to train."""
    items = _items_of(loop, name)
    if items is None:
        return False
    return any(_changes(node, items) for statement in loop.body for node in ast.walk(statement))


def _items_of(loop: ast.For | ast.AsyncFor, name: str) -> set[str] | None:
    """The loop's variables that stand for parts of the model; None where the loop has nothing to do with it."""
    call, target = loop.iter, loop.target
    if not _mentions(call, name):
        return None
    zipped = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "zip"
    if zipped and isinstance(call, ast.Call) and isinstance(target, ast.Tuple) and len(target.elts) == len(call.args):
        pairs = zip(target.elts, call.args, strict=True)
        return {found for item, given in pairs if _mentions(given, name) for found in _names(item)}
    return set(_names(target))


def _mentions(node: ast.expr, name: str) -> bool:
    return any(ast.unparse(item) == name for item in ast.walk(node) if isinstance(item, ast.expr))


def _names(node: ast.AST) -> Iterator[str]:
    yield from (item.id for item in ast.walk(node) if isinstance(item, ast.Name))


def _changes(node: ast.AST, items: set[str]) -> bool:
    """Whether a node stores in a variable of the loop, calls a method of it, or hands it to a function."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        return bool(set(_names(node)) & items)
    if not isinstance(node, ast.Call):
        return False
    chain = attribute_chain(node.func) or [""]
    of_item = chain[0] in items
    if of_item:
        return chain[-1] not in READS
    handed = any(isinstance(item, ast.Name) and item.id in items for item in node.args)
    return handed and len(chain) == 1 and chain[0] not in ("print", "len", "isinstance", "id", "str", "type")
