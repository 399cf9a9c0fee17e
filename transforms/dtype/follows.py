"""What follows a meeting: operands that are cast to the dtype of what they meet, and who reads the result."""

from __future__ import annotations

import ast

from ...codemod.flow.frame import Meeting
from ...codemod.flow.prepared import may_be_prepared
from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import position
from ...codemod.source.project import Project


def is_cast_to_the_other(meeting: Meeting) -> bool:
    """Whether one operand is ``y.to(x.dtype)``, ``y.to(x)`` or ``y.type_as(x)``, and the other one is ``x``."""
    odd, meant = meeting.odd.node, meeting.meant.node
    return odd is not meant and (_casts_to(odd, meant) or _casts_to(meant, odd))


def _casts_to(cast: ast.expr, other: ast.expr) -> bool:
    if not (isinstance(cast, ast.Call) and isinstance(cast.func, ast.Attribute)):
        return False
    name, text = cast.func.attr, ast.unparse(other)
    if name not in ("to", "type", "type_as"):
        return False
    first = [ast.unparse(item) for item in cast.args[:1]]
    if name == "type_as":
        return first == [text]
    dtypes = [
        ast.unparse(item) for item in [*cast.args, *(item.value for item in cast.keywords if item.arg == "dtype")]
    ]
    return f"{text}.dtype" in dtypes or (name == "to" and first == [text])


def is_only_for_prepared(project: Project, meeting: Meeting) -> bool:
    """Whether nothing but models that accelerate runs under its autocast get the result: autocast casts it there."""
    module = meeting.module
    calls = [module.parents.get(_argument(module, item)) for item in readers(meeting)]
    return bool(calls) and all(
        isinstance(each, ast.Call) and may_be_prepared(project, module, each.func) for each in calls
    )


def _argument(module: ModuleNames, node: ast.expr) -> ast.AST:
    """The whole argument that a value is: ``image=joined`` for ``joined``."""
    parent = module.parents.get(node)
    return parent if isinstance(parent, ast.keyword) else node


def readers(meeting: Meeting) -> list[ast.expr]:
    """Where the result of a concatenation is read: by its name, below it in its function, or right where it is made."""
    module = meeting.module
    statement = module.statement_of(meeting.node)
    names = [item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)]
    holder = module.scope_of(meeting.node).function
    loads = [item for name in names for item in module.name_loads.get(name, [])]
    here = [item for item in loads if module.scope_of(item).function is holder]
    read = [
        item for item in here if position(item) > position(statement) and module.statement_of(item) is not statement
    ]
    return list(read) if names else [meeting.node]
