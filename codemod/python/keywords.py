"""The keyword arguments of a call, those that a dictionary brings along (``**kwargs``) among them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .names import ModuleNames


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
    """What a call is given by name."""

    values: dict[str, ast.expr]
    complete: bool
    """False where a dictionary whose content is not known is passed too."""


def keywords_of(module: ModuleNames, call: ast.Call) -> Keywords:
    """The keywords of ``call``; a dictionary that is written down once and filled by constant keys is looked into."""
    values: dict[str, ast.expr] = {}
    complete = True
    for item in call.keywords:
        inner = {item.arg: item.value} if item.arg is not None else entries_of(module, item.value)
        complete = complete and inner is not None
        values |= inner or {}
    return Keywords(values, complete)


def entries_of(module: ModuleNames, node: ast.expr) -> dict[str, ast.expr] | None:
    """The entries of a dictionary (a display, ``dict(a=1)``, a variable that is one); None when it may hold others."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        texts = [(key.value, value) for key, value in pairs if isinstance(key, ast.Constant)]
        named = {key: value for key, value in texts if isinstance(key, str)}
        return named if len(named) == len(node.keys) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        plain = {item.arg: item.value for item in node.keywords if item.arg is not None}
        return plain if not node.args and len(plain) == len(node.keywords) else None
    if not isinstance(node, ast.Name):
        return None
    bindings = module.scope_of(node).lookup(node.id)
    value = bindings[0].value if len(bindings) == 1 else None
    first = entries_of(module, value) if isinstance(value, ast.Dict | ast.Call) else None
    return first if first is not None and not _is_changed(module, node.id, node) else None


def _is_changed(module: ModuleNames, name: str, at: ast.Name) -> bool:
    """Whether something is done with the dictionary besides handing it on."""
    for load in module.name_loads.get(name, []):
        parent = module.parents[load]
        stored = isinstance(parent, ast.Subscript) and not isinstance(parent.ctx, ast.Load)
        called = isinstance(parent, ast.Attribute) and parent.attr in ("update", "pop", "setdefault", "clear")
        if (stored or called) and module.scope_of(load).lookup(name) is module.scope_of(at).lookup(name):
            return True
    return False
