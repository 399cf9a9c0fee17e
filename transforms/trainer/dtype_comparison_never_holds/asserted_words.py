"""Words that an ``assert`` above keeps from being what they are compared with."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.names import FunctionNode, ModuleNames, root_name
from ....codemod.python.paths import function_of, position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import Dtype, as_dtype

DECIDED = ("autocast", "scale", "GradScaler", "half", "bfloat16", "float16", "enabled")
"""Names in what a test decides that make it one of the precision."""


def words_asserted_away(_project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``assert kind in ("native", "apex")``, then ``if kind == "amp":`` around what scales or computes in 16 bits."""
    for asserted in module.of_type(ast.Assert):
        text, allowed = _allowed(asserted.test)
        if not allowed or not isinstance(module.parents[asserted], FunctionNode | ast.Module):
            continue
        for node in module.of_type(ast.Compare):
            words = _compared(node, text)
            is_below = position(node) > position(asserted)
            if not words or not is_below or function_of(module, node) is not function_of(module, asserted):
                continue
            stays = words.isdisjoint(allowed) and not _may_change(module, node, asserted)
            if stays and _decides(module, node, words):
                wrong = ", ".join(map(repr, sorted(words)))
                message = f"{text} is never {wrong}: the assert above lets only other words pass"
                yield Draft.at(module, node, message, [module.place(asserted, "what may pass")])


def _allowed(test: ast.expr) -> tuple[str, frozenset[str]]:
    """What an ``assert`` is about, and the strings that pass; nothing where others may pass."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.In):
        return "", frozenset()
    values = _constants(test.comparators[0])
    known = bool(values) and all(value is None or isinstance(value, str) for value in values)
    return (ast.unparse(test.left), frozenset(map(str, values))) if known else ("", frozenset())


def _compared(node: ast.Compare, text: str) -> frozenset[str]:
    """The strings that a comparison asks for."""
    if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.In) or ast.unparse(node.left) != text:
        return frozenset()
    right = node.comparators[0]
    values = _constants(right) if isinstance(node.ops[0], ast.In) else [getattr(right, "value", None)]
    return frozenset(map(str, values)) if values and all(isinstance(item, str) for item in values) else frozenset()


def _constants(node: ast.expr) -> list[object]:
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
    return [item.value for item in items if isinstance(item, ast.Constant)] if _are_constants(items) else []


def _are_constants(items: list[ast.expr]) -> bool:
    return all(isinstance(item, ast.Constant) for item in items)


def _decides(module: ModuleNames, node: ast.Compare, words: frozenset[str]) -> bool:
    """Whether the words name a dtype, or the branch does what a precision needs."""
    above = next((item for item in module.ancestors(node) if isinstance(item, ast.If | ast.IfExp)), None)
    if above is None or node not in set(ast.walk(above.test)):
        return False
    inside = above.body if isinstance(above.body, list) else [above.body]
    names = {getattr(item, "attr", getattr(item, "id", "")) for part in inside for item in ast.walk(part)}
    return any(isinstance(as_dtype(word), Dtype) for word in words) or not names.isdisjoint(DECIDED)


def _may_change(module: ModuleNames, node: ast.Compare, asserted: ast.Assert) -> bool:
    """Whether a name, or an attribute or a key on the way, gets another value than the one that was asserted."""
    parts = [item for item in ast.walk(node.left) if isinstance(item, ast.Attribute)]
    if any(module.attribute_stores.get(item.attr) for item in parts) or any(
        isinstance(item, ast.Subscript | ast.Call) for item in ast.walk(node.left)
    ):
        return True
    bindings = module.scope_of(node).lookup(root_name(node.left))
    return any(position(item.node) > position(asserted) for item in bindings) or not bindings
