"""Members of the project's enumerations: what ``Kind.BCE`` is, and ``Kind.BCE.value``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from ..source.project import Project
from .functions import class_of
from .names import ModuleNames, last_name
from .options import is_enumeration
from .scopes import Scope

PLAIN = ("Enum",)
MIXED = ("StrEnum", "IntEnum", "str", "int")
"""Bases with which a member equals its value."""
OWN_WAYS = ("__new__", "__eq__", "_missing_", "_value_", "value")
"""What a class may define that makes its members other things than what is written."""


@dataclass(frozen=True, slots=True)
class EnumMember:
    """A member, which equals nothing but itself."""

    owner: Scope
    value: object


def members_of(owner: ast.AST) -> Mapping[str, object]:
    """The members of an enumeration whose values are literals, with these; none of any other class."""
    if not isinstance(owner, ast.ClassDef) or not is_enumeration(owner):
        return {}
    return {
        item.targets[0].id: item.value.value
        for item in owner.body
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name)
        if isinstance(item.value, ast.Constant)
    }


def enumeration_of(project: Project, module: ModuleNames, node: ast.expr) -> Scope | None:
    """The enumeration that an expression names, of whose members it is known what they equal."""
    found = class_of(project, module, node)
    if found is None or not isinstance(found[1].node, ast.ClassDef) or not members_of(found[1].node):
        return None
    known = {last_name(base) for base in found[1].node.bases} <= {*PLAIN, *MIXED}
    return found[1] if known and not set(OWN_WAYS) & found[1].bindings.keys() else None


def member_named(project: Project, module: ModuleNames, node: ast.expr) -> EnumMember | None:
    """The member that ``Kind.BCE`` names."""
    owner = enumeration_of(project, module, node.value) if isinstance(node, ast.Attribute) else None
    if owner is None or not isinstance(node, ast.Attribute):
        return None
    members = members_of(owner.node)
    return EnumMember(owner, members[node.attr]) if node.attr in members else None


def equals_its_value(member: EnumMember) -> bool:
    return any(last_name(base) in MIXED for base in getattr(member.owner.node, "bases", ()))
