"""Meetings whose authors know about them: losses, exports, models that are being built, positions."""

from __future__ import annotations

import ast

from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import Role

POSITION_WORDS = ("index", "indices", "_ids")


def is_on_purpose(meeting: Meeting) -> bool:
    """Whether the author of the code knows what meets there, or nothing 16-bit can come there."""
    return (
        meeting.operation.endswith(("loss", "cross_entropy"))
        or _is_exported(meeting)
        or _is_being_built(meeting)
        or _is_joined_anywhere(meeting)
    )


def _is_exported(meeting: Meeting) -> bool:
    """Exports run the model in float32, on inputs made for it."""
    path = meeting.module.document.path.lower()
    function = meeting.function.name.lower() if meeting.function is not None else ""
    stem = path.rpartition("/")[2]
    return "onnx" in path or stem.startswith("export") or "onnx" in function or "export" in function


def _is_being_built(meeting: Meeting) -> bool:
    """A trial run while the model is built, or only for its shape: the weights are float32 then."""
    parent = meeting.module.parents.get(meeting.node)
    if isinstance(parent, ast.Attribute) and parent.attr in ("shape", "size", "ndim"):
        return True
    return meeting.function is not None and meeting.function.name == "__init__"


def _names_positions(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in POSITION_WORDS)


def _is_joined_anywhere(meeting: Meeting) -> bool:
    """A concatenation with (or a write of) positions, which have a dtype of their own."""
    if meeting.mix not in ("promotes", "raises-destination") or meeting.meant.atom.role is not Role.EXPRESSION:
        return False
    return meeting.meant.node is not meeting.odd.node and _names_positions(meeting.meant.node)
