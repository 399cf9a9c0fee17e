"""Which of the project's model classes an object of one class can be made of: what its code names, bases included."""

from __future__ import annotations

import ast

from ..python.functions import called_function, class_of
from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from .classes import ProjectClass, is_torch_module

MAX_HOPS = 3
"""Helper functions through which a constructor makes its parts."""


def parts_of(project: Project, owner: ProjectClass) -> tuple[ProjectClass, ...]:
    """The bases of a model class, and the model classes that its body or helpers of its constructor name."""
    return project.memo(_parts_of, owner)


def _parts_of(project: Project, owner: ProjectClass) -> tuple[ProjectClass, ...]:
    node, module = owner.scope.node, owner.module
    if not isinstance(node, ast.ClassDef):
        return ()
    found = dict.fromkeys(classes_named(project, module, node))
    for helper, place in _helpers(project, module, node, MAX_HOPS).items():
        found.update(dict.fromkeys(classes_named(project, place, helper)))
    found.pop(owner, None)
    return tuple(item for item in found if is_torch_module(project, item))


def _helpers(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> dict[FunctionNode, ModuleNames]:
    """The project's plain functions that code calls, and that these call."""
    found: dict[FunctionNode, ModuleNames] = {}
    for call in (item for item in ast.walk(node) if isinstance(item, ast.Call)):
        target = called_function(project, module, call) if isinstance(call.func, ast.Name) else None
        if target is None or target.node.name == "__init__" or target.node in found:
            continue
        found[target.node] = target.module
        if hops > 1:
            found |= _helpers(project, target.module, target.node, hops - 1)
    return found


def classes_named(project: Project, module: ModuleNames, node: ast.AST, inside: bool = True) -> list[ProjectClass]:
    """The classes of the project that are read in ``node``, or in the tables of the file that are read there."""
    found = []
    for item in ast.walk(node):
        if isinstance(item, ast.Name | ast.Attribute) and isinstance(item.ctx, ast.Load):
            known = class_of(project, module, item)
            if known is not None:
                found.append(ProjectClass(*known))
            elif inside and isinstance(item, ast.Name):
                tables = [binding.value for binding in module.module_scope.bindings.get(item.id, ())]
                for table in tables:
                    if isinstance(table, ast.Dict):
                        found += classes_named(project, module, table, inside=False)
    return found
