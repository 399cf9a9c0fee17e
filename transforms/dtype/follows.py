"""Operands that are cast to the dtype of what they meet: whatever that is, both have it."""

from __future__ import annotations

import ast

from ...codemod.flow.frame import Meeting


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
