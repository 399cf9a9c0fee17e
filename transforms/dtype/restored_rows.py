"""Rows of a weight that are written back from a copy, where the weight was cast after the copy was taken."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.python.names import ModuleNames, names_of
from ...codemod.source.project import Project

WORDS = ("dtype", "half", "bfloat16")
CASTS = ("to", "half", "bfloat16")


@dataclass(frozen=True, slots=True, eq=False)
class RestoredRows:
    """``model.weight[rows] = copy[rows]``."""

    module: ModuleNames
    target: ast.Subscript
    value: ast.Subscript
    copied: ast.Call
    """The ``clone()`` that took the copy."""
    cast: ast.Call
    """The cast of the module that came between."""


def restored_rows(project: Project) -> Iterator[RestoredRows]:
    """Every such write whose module is cast, in the same function, after a copy of its weight was taken."""
    for document in project.python_documents(WORDS, where=lambda text: ".weight[" in text and ".clone()" in text):
        module = names_of(project, document)
        for node in module.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                yield from _restored(module, node.targets[0], node.value)


def _restored(module: ModuleNames, target: ast.expr, value: ast.expr) -> Iterator[RestoredRows]:
    if not (isinstance(target, ast.Subscript) and isinstance(value, ast.Subscript)):
        return
    whole = target.value
    weight = whole.value if isinstance(whole, ast.Attribute) and whole.attr == "data" else whole
    if not _named(weight, "weight") or isinstance(target.slice, ast.Slice | ast.Constant):
        return
    if ast.unparse(target.slice) != ast.unparse(value.slice):
        return
    holders = {node.id for node in ast.walk(weight) if isinstance(node, ast.Name)}
    for copied in _calls(module, target, ("clone",)):
        text = ast.unparse(copied)
        if ".weight" in text and copied.lineno < target.lineno and _names(copied) & holders:
            cast = next((call for call in _calls(module, target, CASTS) if _casts(call, holders, copied, target)), None)
            if cast is not None:
                yield RestoredRows(module, target, value, copied, cast)
                return


def _named(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _names(node: ast.AST) -> set[str]:
    return {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}


def _calls(module: ModuleNames, near: ast.AST, names: tuple[str, ...]) -> list[ast.Call]:
    """The calls of some methods in the function that holds ``near``."""
    function = module.scope_of(near).function
    calls = [call for name in names for call in module.calls_by_name.get(name, [])]
    return sorted((call for call in calls if module.scope_of(call).function is function), key=lambda item: item.lineno)


def _casts(call: ast.Call, holders: set[str], copied: ast.Call, target: ast.Subscript) -> bool:
    """Whether a call casts one of the modules to another dtype between the copy and the write."""
    if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)):
        return False
    if call.func.value.id not in holders or not copied.lineno < call.lineno < target.lineno:
        return False
    given = [*call.args, *(item.value for item in call.keywords if item.arg == "dtype")]
    return call.func.attr != "to" or any("dtype" in ast.unparse(item) or "16" in ast.unparse(item) for item in given)
