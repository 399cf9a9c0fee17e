"""The fields that a class declares by annotations: dataclasses, named tuples, models of pydantic."""

from __future__ import annotations

import ast

from .commands import default_of_declaration
from .scopes import attribute_chain

FIELD_CALLS = frozenset(("field", "ib", "attrib", "Field", "PrivateAttr", "arg", "mutable_field"))
"""Calls that stand for the default of a class's field: of dataclasses, attrs, pydantic, simple_parsing."""


def declared_fields(owner: ast.AST) -> dict[str, ast.AnnAssign]:
    """The annotated names in the body of a class, in order; none of anything else."""
    stated = (item for item in getattr(owner, "body", ()) if isinstance(item, ast.AnnAssign))
    return {item.target.id: item for item in stated if isinstance(item.target, ast.Name)}


def default_of_field(value: ast.expr | None) -> ast.expr | None:
    """What a field is where nobody gives it, also as ``field(default="bf16")``; None where that is not written."""
    is_call = isinstance(value, ast.Call) and (attribute_chain(value.func) or [""])[-1] in FIELD_CALLS
    return default_of_declaration(value) if isinstance(value, ast.Call) and is_call else value
