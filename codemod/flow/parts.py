"""Which of the project's model classes an object of one class can be made of: what its code names, bases included."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.functions import called_function, class_of
from ..python.names import Binding, FunctionNode, ModuleNames, root_name
from ..source.child_fields import within
from ..source.facts import memo
from ..source.project import Project
from ..source.slim_nodes import is_read
from .classes import ProjectClass, is_torch_module

MAX_PARTS = 200
"""Classes that are looked into for one model."""
MAX_HOPS = 3
"""Helper functions through which a constructor makes its parts."""


@memo
def parts_of(project: Project, owner: ProjectClass) -> tuple[ProjectClass, ...]:
    """The bases of a model class, and the model classes that its body or helpers of its constructor name."""
    node, module = owner.scope.node, owner.module
    if not isinstance(node, ast.ClassDef):
        return ()
    found = dict.fromkeys(classes_named(project, module, node))
    for helper, place in _helpers(project, module, node).items():
        found.update(dict.fromkeys(classes_named(project, place, helper)))
    found.pop(owner, None)
    return tuple(item for item in found if is_torch_module(project, item))


def all_parts(project: Project, owner: ProjectClass) -> Iterator[ProjectClass]:
    seen, waiting = set[ProjectClass](), [owner]
    while waiting and len(seen) < MAX_PARTS:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            yield current
            waiting += parts_of(project, current)


def _helpers(project: Project, module: ModuleNames, node: ast.AST) -> dict[FunctionNode, ModuleNames]:
    """The project's plain functions that code calls, and those that these call, the nearest first."""
    found: dict[FunctionNode, ModuleNames] = {}
    callers: list[tuple[ModuleNames, ast.AST]] = [(module, node)]
    for _ in range(MAX_HOPS):
        called = [item for caller in callers for item in project.memo(_named_in, caller)[0]]
        callers = [(place, helper) for place, helper in called if helper not in found]
        found.update({helper: place for place, helper in called})
    return found


def classes_named(project: Project, module: ModuleNames, node: ast.AST) -> tuple[ProjectClass, ...]:
    """The classes of the project that are read in ``node``, or in the tables of the file that are read there."""
    return project.memo(_named_in, (module, node))[1]


def _named_in(
    project: Project, asked: tuple[ModuleNames, ast.AST]
) -> tuple[tuple[tuple[ModuleNames, FunctionNode], ...], tuple[ProjectClass, ...]]:
    """The project's plain functions that are called in a function or class, and the classes that are read there."""
    module, node = asked
    nodes = within(node)
    calls = (item for item in nodes if isinstance(item, ast.Call) and isinstance(item.func, ast.Name))
    reached = (called_function(project, module, call) for call in calls)
    targets = (item for item in reached if item is not None and item.node.name != "__init__")
    called = dict.fromkeys((item.module, item.node) for item in targets)
    return tuple(called), tuple(_classes_among(project, module, nodes))


def _classes_among(project: Project, module: ModuleNames, nodes: list[ast.AST]) -> dict[ProjectClass, None]:
    can_be_class, tables = module.of_parts(_names_of_classes)
    found: dict[ProjectClass, None] = {}
    for item in _reads(nodes):
        root = root_name(item)
        known = class_of(project, module, item) if root in can_be_class or module.star_imports else None
        if known is not None:
            found[ProjectClass(*known)] = None
        elif isinstance(item, ast.Name) and root in tables:
            named = (class_of(project, module, each) for table in tables[root] for each in _reads(within(table)))
            found.update({ProjectClass(*each): None for each in named if each is not None})
    return found


def _names_of_classes(module: ModuleNames) -> tuple[frozenset[str], dict[str, list[ast.Dict]]]:
    """The names that stand for a class, or what holds one, somewhere in a file, and its tables by their name."""
    can_be_class = frozenset(item.name for item in module.all_bindings if item.kind == "class" or _is_of_project(item))
    tables: dict[str, list[ast.Dict]] = {}
    for name, group in module.module_scope.bindings.items():
        held = [item.value for item in group if isinstance(item.value, ast.Dict)]
        if held:
            tables[name] = held
    return can_be_class, tables


def _is_of_project(binding: Binding) -> bool:
    return binding.kind == "import" and (binding.qualified or "").partition(".")[0] != "torch"


def _reads(nodes: list[ast.AST]) -> Iterator[ast.Name | ast.Attribute]:
    for item in nodes:
        if is_read(item):
            yield item
