"""NumPy arrays whose dtype is read from a record in which the project itself writes ``"bfloat16"``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.python.names import ModuleNames, names_of
from ...codemod.python.values import values_of
from ...codemod.source.project import Project
from ..hardware.deployment import is_test

NAME = "bfloat16"
_MAKERS = ("memmap", "frombuffer", "fromfile", "fromstring", "zeros", "ones", "empty", "full", "dtype", "ndarray")


@dataclass(frozen=True, slots=True, eq=False)
class NamedDtype:
    """``np.memmap(path, dtype=record["dtype"])``."""

    module: ModuleNames
    node: ast.expr
    """What names the dtype."""
    stored: Place
    """Where the project puts ``"bfloat16"`` under that key."""


def named_dtypes(project: Project) -> Iterator[NamedDtype]:
    """Every NumPy array whose dtype is read from such a record, by code that does not know of bfloat16."""
    keys = project.fact(_stored_keys)
    if not keys:
        return
    for document in project.python_documents(("numpy",), where=lambda text: any(key in text for key in keys)):
        if is_test(document.path):
            continue
        module = names_of(project, document)
        for call in (call for name in _MAKERS for call in module.calls_by_name.get(name, [])):
            node = _dtype_of(call)
            key = _key_of(node) if node is not None else None
            if node is None or key not in keys or not (module.qualified(call.func) or "").startswith("numpy."):
                continue
            if not _knows(module, call):
                yield NamedDtype(module, node, keys[key])


def _dtype_of(call: ast.Call) -> ast.expr | None:
    return next((item.value for item in call.keywords if item.arg == "dtype"), call.args[0] if call.args else None)


def _key_of(node: ast.expr) -> str | None:
    key = node.slice if isinstance(node, ast.Subscript) else None
    return key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else None


def _knows(module: ModuleNames, node: ast.AST) -> bool:
    """Whether the function around speaks of bfloat16 itself."""
    function = module.scope_of(node).function.node
    return any(isinstance(item, ast.Constant) and item.value == NAME for item in ast.walk(function))


def _stored_keys(project: Project) -> dict[str, Place]:
    """The keys under which the project stores ``"bfloat16"`` in a dictionary, each with one place that does."""
    found: dict[str, Place] = {}
    for document in project.python_documents((NAME,), where=lambda text: f'"{NAME}"' in text or f"'{NAME}'" in text):
        if is_test(document.path):
            continue
        module = names_of(project, document)
        values = values_of(project, module)
        for node in module.nodes:
            for key, value in _dtype_entries(node):
                if any(item.value == NAME for item in values.scenarios(value)):
                    found.setdefault(key, Place(document.path, document.span(value), f'"{NAME}" can be stored here'))
    return found


def _dtype_entries(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The entries of a dictionary display whose key speaks of a dtype."""
    for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and "dtype" in key.value:
            yield key.value, value
