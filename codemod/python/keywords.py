"""The keyword arguments of a call, those that a dictionary brings along (``**kwargs``) among them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .names import ModuleNames, string_of


@dataclass(frozen=True, slots=True, eq=False)
class Keywords:
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
    first = _written(module, node)
    return first if isinstance(node, ast.Name) and first is not None and _stored(module, node) == set() else None


def lasting_entries(module: ModuleNames, node: ast.expr) -> tuple[dict[str, ast.expr], set[str]] | None:
    """The same of a variable to which more is added, without what is stored again; and the names that are stored."""
    known = entries_of(module, node)
    if known is not None:
        return known, set()
    first = _written(module, node)
    stored = _stored(module, node) if isinstance(node, ast.Name) and first is not None else None
    if first is None or stored is None:
        return None
    return {key: value for key, value in first.items() if key not in stored}, stored


def _written(module: ModuleNames, node: ast.expr) -> dict[str, ast.expr] | None:
    """What a variable that is bound once begins with."""
    bindings = module.bindings_of(node)
    value = bindings[0].value if len(bindings) == 1 else None
    return entries_of(module, value) if isinstance(value, ast.Dict | ast.Call) else None


def _stored(module: ModuleNames, at: ast.Name) -> set[str] | None:
    """The keys under which something is stored in a dictionary after it was made; None where not all are known."""
    found = {name for name, _, _ in stores_in(module, at)}
    return {name for name in found if name is not None} if None not in found else None


def key_of(display: ast.AST | None, node: ast.AST) -> str | None:
    """``name`` of ``{"name": node}``; None where this is no such dictionary."""
    held = zip(display.keys, display.values, strict=True) if isinstance(display, ast.Dict) else ()
    return next((string_of(key) for key, value in held if value is node), None)


def stores_in(module: ModuleNames, at: ast.Name) -> Iterator[tuple[str | None, ast.expr | None, ast.stmt]]:
    """What is stored in a dictionary after it was made: the key, the value and the statement, in source order.

    A key is None where it is not known, a value where the entry may be left out or be another.
    """
    known = module.bindings_of(at)
    for load in module.name_loads.get(at.id, []):
        if module.scope_of(load).lookup(at.id) is known:
            yield from ((*item, module.statement_of(load)) for item in _stores_at(module, module.parents[load]))


def _stores_at(module: ModuleNames, node: ast.AST) -> Iterator[tuple[str | None, ast.expr | None]]:
    """What ``d["a"] = 1``, ``d.update(a=1)`` and ``d.pop("a")`` store; ``node`` is what is around ``d``."""
    if isinstance(node, ast.Attribute) and node.attr in ("update", "pop", "setdefault", "clear"):
        call = module.parents[node]
        taken = call.args[:1] if isinstance(call, ast.Call) and node.attr in ("pop", "setdefault") else []
        if node.attr == "update":
            yield from _updates(module, call)
        else:
            yield string_of(taken[0]) if taken else None, None
    elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        statement = module.parents[node]
        yield string_of(node.slice), statement.value if isinstance(statement, ast.Assign) else None


def _updates(module: ModuleNames, call: ast.AST) -> Iterator[tuple[str | None, ast.expr | None]]:
    """The names that a call is given values for, and these; None where not all are known."""
    for argument in call.args if isinstance(call, ast.Call) else ():
        known = entries_of(module, argument)
        yield from known.items() if known else ((None, None),)
    for item in call.keywords if isinstance(call, ast.Call) else ():
        yield item.arg, item.value
    if not isinstance(call, ast.Call):
        yield None, None
