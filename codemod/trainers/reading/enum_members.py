"""Members of enumerations of the project whose values are words: ``Precision.FP16``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import partial

from ...model import Edit, EditRefused, ReplaceExpression
from ...python.enumerations import members_of
from ...python.functions import class_of
from ...python.names import ModuleNames
from ...source.project import Project
from ...torch.dtypes import Constant
from .source import SourceKind, ValueSource


def member_source(project: Project, kind: SourceKind, module: ModuleNames, node: ast.expr) -> ValueSource | None:
    """The source that a member is, with its value; None for what is none."""
    owner = class_of(project, module, node.value) if isinstance(node, ast.Attribute) else None
    members = _words(owner[1].node) if owner is not None else {}
    if not isinstance(node, ast.Attribute) or node.attr not in members:
        return None
    document, name = module.document, ast.unparse(node.value)
    place = (kind, document.path, document.span(node), "", members[node.attr], ast.unparse(node))
    return ValueSource(*place, respelling=partial(_other, module, node, name, members), offered=tuple(members.values()))


def are_members(found: Iterable[ValueSource]) -> bool:
    return any(isinstance(item.respelling, partial) and item.respelling.func is _other for item in found)


def _words(owner: ast.AST) -> Mapping[str, str]:
    return {name: value for name, value in members_of(owner).items() if isinstance(value, str)}


def _other(module: ModuleNames, node: ast.expr, owner: str, members: Mapping[str, str], value: Constant) -> Edit:
    name = next((name for name, word in members.items() if word == value), "")
    if not name:
        raise EditRefused(f"{owner} has no member for {value!r}")
    return Edit(module.path, ReplaceExpression(module.document.span(node), (f"{owner}.{name}",)))
