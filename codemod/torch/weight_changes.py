"""Statements that may give a model, or its parameters, another dtype: casts, adapters, loops over its parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.names import attribute_chain
from .api import WALKS

CHANGES_BACK = (
    "float32",
    "fp32",
    "cast_training_params",
    "get_peft_model",
    "prepare_model_for_kbit_training",
    "prepare_model_for_int8_training",
    "add_adapter",
    "inject_adapter_in_model",
    "load_adapter",
    "set_adapter",
    "requires_grad_",
    "upcast",
)
"""Calls after which the trainable parameters may be float32 after all, or others than the model's own."""
LEAVING = ("print", "len", "isinstance", "id", "str", "type", "fully_shard")
"""Functions that leave the dtype of what they are given: FSDP shards weights as they are."""
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


def may_change_back(statement: ast.stmt, name: str) -> bool:
    """Whether the statement may give the model, or its parameters, another dtype or other parameters."""
    if isinstance(statement, ast.For | ast.AsyncFor):
        return _changes_items(statement, name)
    return any(_changes_dtype(node, name) for node in ast.walk(statement) if isinstance(node, ast.Call))


def _changes_dtype(call: ast.Call, name: str) -> bool:
    chain = attribute_chain(call.func)
    last = call.func.attr if isinstance(call.func, ast.Attribute) else (chain or [""])[-1]
    on_model = chain is not None and f"{'.'.join(chain[:-1])}.".startswith(f"{name}.")
    if on_model and last in ("to", "type"):
        return not moves_only(call)
    if on_model and last in ("float", "bfloat16", "half", "double"):
        return True
    given = any(name in ast.unparse(argument) for argument in call.args)
    return (on_model or given) and any(word in last for word in CHANGES_BACK)


def moves_only(call: ast.Call) -> bool:
    """Whether ``x.to(...)`` is given no dtype."""
    text = " ".join(ast.unparse(item) for item in (*call.args, *(keyword.value for keyword in call.keywords)))
    return not any(word in text for word in ("dtype", "float", "half", "double"))


def takes_over(call: ast.Call) -> bool:
    """Whether the tensors of a state take the place of the weights: ``load_state_dict(state, assign=True)``."""
    given = [*call.args[2:3], *(item.value for item in call.keywords if item.arg == "assign")]
    return any(not isinstance(item, ast.Constant) or bool(item.value) for item in given)


def _changes_items(loop: ast.For | ast.AsyncFor, name: str) -> bool:
    """Whether a loop over something of the model ``name`` may give it another dtype, or other parameters to train."""
    items = _items_of(loop, name)
    if items is None:
        return False
    for inner in (item for item in ast.walk(loop) if isinstance(item, ast.For | ast.comprehension)):
        items |= set(_names(inner.target)) if items & set(_names(inner.iter)) else set()
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
        return chain[-1] not in READS and chain[-1] not in WALKS and not hasattr(str, chain[-1])
    handed = any(isinstance(item, ast.Name) and item.id in items for item in node.args)
    return handed and not isinstance(node.func, ast.Attribute) and chain[0] not in LEAVING
