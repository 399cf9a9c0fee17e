"""Every call of ``binary_cross_entropy``: by its name, or through an object that was made of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.functions import bases_of, class_of
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with, resolve
from ....codemod.source.project import Project
from ....codemod.torch.object_calls import calls_of_object

FUNCTION = "torch.nn.functional.binary_cross_entropy"
CLASSES = {"torch.nn.BCELoss", "torch.nn.modules.BCELoss", "torch.nn.modules.loss.BCELoss"}


@dataclass(frozen=True, slots=True, eq=False)
class BceCall:
    """One call ``loss(prediction, target)``."""

    module: ModuleNames
    call: ast.Call
    birth: tuple[ModuleNames, ast.expr] | None = None
    """Where the criterion is made; None for a direct call of the function."""


def bce_calls(project: Project) -> Iterator[BceCall]:
    """The calls of the project, each once."""
    seen: set[ast.Call] = set()
    for module in modules_with(project, ("bceloss", "binary_cross_entropy")):
        for found in _in_module(project, module):
            if found.call not in seen:
                seen.add(found.call)
                yield found


def _in_module(project: Project, module: ModuleNames) -> Iterator[BceCall]:
    bound = {item.name for item in module.all_bindings if (item.qualified or "").endswith(".binary_cross_entropy")}
    imported = [node for alias in sorted(bound) for node in module.name_loads.get(alias, [])]
    for node in (*module.attribute_loads.get("binary_cross_entropy", []), *imported):
        if resolve(project, module, node) != FUNCTION:
            continue
        parent = module.parents.get(node)
        if isinstance(parent, ast.Call) and parent.func is node:
            yield BceCall(module, parent)
        else:
            yield from _of_object(project, module, node)
    for call in _makers(project, module):
        yield from _of_object(project, module, call)


def _makers(project: Project, module: ModuleNames) -> Iterator[ast.Call]:
    """The calls that make a BCELoss, or an object of a subclass that adds nothing to its ``forward``."""
    for name, calls in module.calls_by_name.items():
        named = (item.qualified or "" for item in module.module_scope.lookup(name))
        if "bce" not in name.lower() and not any(each.endswith(".BCELoss") for each in named):
            continue
        for call in calls:
            if resolve(project, module, call.func) in CLASSES or _is_subclass(project, module, call.func):
                yield call


def _is_subclass(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    found = class_of(project, module, node) if attribute_chain(node) is not None else None
    if found is None:
        return False
    other, scope = found
    plain = not {"forward", "__call__"} & scope.bindings.keys()
    return plain and any(resolve(project, other, base) in CLASSES for base in bases_of(scope))


def _of_object(project: Project, module: ModuleNames, birth: ast.expr) -> Iterator[BceCall]:
    for other, call in calls_of_object(project, module, birth):
        if len(call.args) + len(call.keywords) >= 2:
            yield BceCall(other, call, (module, birth))
