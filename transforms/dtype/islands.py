"""Meetings whose authors know about them: float32 islands, exports, models that are being built."""

from __future__ import annotations

import ast

from ...codemod.flow.contexts import autocasts_by_node
from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import Made, Role
from ...codemod.python.names import FunctionNode
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP32

POSITION_WORDS = ("index", "indices", "_ids")


def is_on_purpose(project: Project, meeting: Meeting) -> bool:
    """Whether the author of the code knows what meets there, or nothing 16-bit can come there.

    In a model that a run has in 16 bits, what its author thought of a part counts for nothing.
    """
    return (
        meeting.operation.endswith(("loss", "cross_entropy"))
        or _is_exported(meeting)
        or _is_being_built(meeting)
        or (not meeting.certain and _is_in_island(project, meeting))
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


def _is_in_island(project: Project, meeting: Meeting) -> bool:
    """``with torch.autocast(..., enabled=False):`` around a tensor that was cast to float32: the weights stay so."""
    odd = meeting.odd.atom
    if odd.dtype != FP32 or odd.made is not Made.CAST:
        return False
    index = autocasts_by_node(project, meeting.module)
    node: ast.AST | None = meeting.node
    while node is not None and index:
        opened = node.decorator_list if isinstance(node, FunctionNode) else ()
        if isinstance(node, ast.With | ast.AsyncWith):
            opened = [item.context_expr for item in node.items]
        if any(item in index and index[item].switched_off for item in opened):
            return True
        node = meeting.module.parents.get(node)
    return False


def _names_positions(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in POSITION_WORDS)


def _is_joined_anywhere(meeting: Meeting) -> bool:
    """A concatenation with (or a write of) positions, which have a dtype of their own."""
    if meeting.mix not in ("promotes", "raises-destination") or meeting.meant.atom.role is not Role.EXPRESSION:
        return False
    return meeting.meant.node is not meeting.odd.node and _names_positions(meeting.meant.node)
