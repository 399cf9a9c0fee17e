"""The calls that reach a function; for ``forward`` and ``__call__``, those of the objects of its class."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.callers import callers_of
from ..python.functions import class_of
from ..python.names import FunctionNode, ModuleNames, modules_with
from ..source.project import Project
from .object_calls import calls_of_object

MAX_BIRTHS = 8
"""How many objects of one class are followed to their calls."""


def sites_of(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The calls that reach a function; for ``forward`` and ``__call__`` those of the objects of its class."""
    owner = module.scopes[function].parent
    if function.name in ("forward", "__call__") and owner is not None and isinstance(owner.node, ast.ClassDef):
        own = module.calls_by_name.get("self", ())
        yield from ((module, call) for call in own if module.scope_of(call).enclosing_class is owner)
        for other, birth in births_of(project, owner.node):
            yield from calls_of_object(project, other, birth)
        return
    yield from ((site.module, site.call) for site in callers_of(project, module, function).sites)


def births_of(project: Project, owner: ast.ClassDef) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The calls that make an object of the class."""
    count = 0
    for other in modules_with(project, (f"{owner.name}(",)):
        for call in other.calls_by_name.get(owner.name, []):
            found = class_of(project, other, call.func)
            if found is not None and found[1].node is owner and count < MAX_BIRTHS:
                count += 1
                yield other, call
