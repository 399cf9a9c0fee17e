"""Keys and values of dictionaries in Python code, and of the variables of Python configuration files."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ...python.names import ModuleNames, string_of
from ...python.trace import Domain, Trace

MAX_DEPTH = 12
WrittenMapping: TypeAlias = "tuple[ModuleNames, ast.Dict | ast.DictComp | ast.Call]"
"""A dictionary that is written out, or of a module's variables, with its module."""


@dataclass(frozen=True, slots=True, eq=False)
class MappingItem:
    """One value in a nest of dictionaries, with what holds it."""

    path: str
    value: ast.expr
    holder: ast.Dict | ast.Call | ast.stmt
    key: str
    section: ast.Dict | ast.Call | None = None
    """What further keys would be added to, where the value is a dictionary."""


def is_mapping(node: ast.expr) -> bool:
    """Whether a node is a dictionary with readable keys: ``{...}`` or ``dict(a=...)``."""
    if isinstance(node, ast.Dict):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args


def items_of(node: ast.expr, prefix: str = "", depth: int = 0) -> Iterator[MappingItem]:
    """Every key below a dictionary (or a call's keyword arguments), outer ones first."""
    if depth > MAX_DEPTH or not isinstance(node, ast.Dict | ast.Call):
        return
    for name, value in _pairs(node):
        path = f"{prefix}{name}"
        yield MappingItem(path, value, node, name, _section(value))
        if is_mapping(value):
            yield from items_of(value, f"{path}.", depth + 1)


def _pairs(node: ast.Dict | ast.Call) -> list[tuple[str, ast.expr]]:
    if isinstance(node, ast.Call):
        return [(keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg is not None]
    pairs = zip(node.keys, node.values, strict=True)
    return [(key.value, value) for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def _section(node: ast.expr) -> ast.Dict | ast.Call | None:
    return node if is_mapping(node) and isinstance(node, ast.Dict | ast.Call) else None


def module_items(module: ModuleNames) -> Iterator[MappingItem]:
    """A module's variables: ``fp16 = dict(...)``, ``train.amp.enabled = True``, ``a["b"] = 1``, ``a.update(b=1)``."""
    for statement in module.tree.body:
        target = value = None
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target, value = statement.targets[0], statement.value
        elif isinstance(statement, ast.AnnAssign):
            target, value = statement.target, statement.value
        elif isinstance(statement, ast.Expr):
            yield from _updated(statement)
        chain = _chain(target) if target is not None else None
        if chain and value is not None:
            path = ".".join(chain)
            yield MappingItem(path, value, statement, chain[-1], _section(value))
            if is_mapping(value):
                yield from items_of(value, f"{path}.")


def _updated(statement: ast.Expr) -> Iterator[MappingItem]:
    """The keys that ``a.update(...)`` sets, given as keywords or as one dictionary."""
    call = statement.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "update":
        return
    chain = _chain(call.func.value)
    given: ast.expr = call.args[0] if len(call.args) == 1 and not call.keywords else call
    if chain and isinstance(given, ast.Dict | ast.Call) and (given is call or is_mapping(given)):
        path = ".".join(chain)
        yield MappingItem(path, given, statement, chain[-1], given)
        yield from items_of(given, f"{path}.")


def _chain(node: ast.expr) -> tuple[str, ...] | None:
    """``train.amp`` and ``train["amp"]`` as parts; None for anything else."""
    parts: list[str] = []
    while True:
        if isinstance(node, ast.Name):
            return (node.id, *reversed(parts))
        if isinstance(node, ast.Attribute):
            parts.append(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and len(parts) < MAX_DEPTH:
            if not isinstance(node.slice.value, str):
                return None
            parts.append(node.slice.value)
        else:
            return None
        node = node.value


def builds_on_others(module: ModuleNames) -> bool:
    """Whether a configuration module gets variables from other files: ``_base_``, relative and star imports."""
    if module.star_imports or "_base_" in module.module_scope.bindings:
        return True
    return any(
        isinstance(statement, ast.With) or (isinstance(statement, ast.ImportFrom) and statement.level > 0)
        for statement in module.tree.body
    )


# --- dictionaries that are read by a key ------------------------------------------------------------------------------


def values_under(module: ModuleNames, made: ast.Dict | ast.DictComp | ast.Call, key: str) -> list[ast.expr]:
    """What a dictionary holds under a key; of the variables of its module what these are given."""
    if isinstance(made, ast.Dict | ast.Call):
        return [value for name, value in _pairs(made) if name == key]
    return [item.value for item in module.module_scope.bindings.get(key, ()) if item.value is not None]


def is_of_globals(node: ast.AST) -> bool:
    """``{name: globals()[name] for name in names}``: the variables of a module."""
    value = node.value if isinstance(node, ast.DictComp) else None
    if not isinstance(node, ast.DictComp) or not isinstance(value, ast.Subscript) or len(node.generators) != 1:
        return False
    is_global = isinstance(value.value, ast.Call) and isinstance(value.value.func, ast.Name)
    return is_global and ast.unparse(value.value) == "globals()" and ast.unparse(value.slice) == ast.unparse(node.key)


def fills(module: ModuleNames, key: str) -> bool:
    """Whether a module writes this key of some dictionary, or updates one."""
    stores = (node for node in module.of_type(ast.Subscript) if isinstance(node.ctx, ast.Store))
    merged = (isinstance(node.op, ast.BitOr) for node in module.of_type(ast.AugAssign))
    updates = module.calls_by_name.get("update", ())
    return (
        any(string_of(node.slice) == key for node in stores)
        or any(merged)
        or any(_updates(call, key) for call in updates)
    )


def _updates(call: ast.Call, key: str) -> bool:
    """``options.update(other)``, ``options.update(dtype="float16")``; a scaler's or a progress bar's update is none."""
    if not isinstance(call.func, ast.Attribute) or not isinstance(call.func.value, ast.Name):
        return False
    given = any(not isinstance(argument, ast.Constant) for argument in call.args)
    return given or any(item.arg in (key, None) for item in call.keywords)


def _dictionary(
    _question: Trace[WrittenMapping], module: ModuleNames, node: ast.expr
) -> tuple[WrittenMapping, ...] | None:
    if isinstance(node, ast.Dict | ast.Call) and is_mapping(node):
        return ((module, node),)
    if isinstance(node, ast.DictComp) and is_of_globals(node):
        return ((module, node),)
    return None


DICTIONARIES: Domain[WrittenMapping] = Domain(_dictionary, lambda *_gap: ())
"""The dictionaries that an expression can be."""
