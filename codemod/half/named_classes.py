"""Classes that nothing names: no import, registry, configuration file or export list leads to them."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames, Scope, modules_with
from ..source.documents import FileKind
from ..source.project import Project

SETTINGS = (FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.NOTEBOOK, FileKind.SHELL)


def is_named(project: Project, owner: Scope) -> bool:
    """Whether anything but its own definition names the class ``owner``."""
    node = owner.node
    if not isinstance(node, ast.ClassDef) or node.decorator_list:
        return True
    if any(True for kind in SETTINGS for _ in project.documents(kind, (node.name,))):
        return True
    return any(_names(module, node.name) for module in modules_with(project, (node.name,)))


def _names(module: ModuleNames, name: str) -> bool:
    """Whether ``name`` stands in a file otherwise than in ``class name`` and inside that class."""
    classes = [item.node for item in module.module_scope.bindings.get(name, []) if item.kind == "class"]
    inside = [load for load in module.name_loads.get(name, []) if any(_holds(module, each, load) for each in classes)]
    return module.document.text.count(name) > len(classes) + len(inside)


def _holds(module: ModuleNames, owner: ast.AST, node: ast.AST) -> bool:
    return any(parent is owner for parent in module.ancestors(node))
