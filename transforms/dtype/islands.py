"""Meetings whose authors know about them: float32 islands, casts just before a layer, exports."""

from __future__ import annotations

import ast

from ...codemod.flow.classes import ProjectClass, is_torch_module
from ...codemod.flow.contexts import autocasts_by_node
from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import Made, Role
from ...codemod.python.names import FunctionNode
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP32

SAME_VALUE = ("contiguous", "clone", "detach")
DATA = ("tensor", "as_tensor", "asarray")
POSITION_WORDS = ("index", "indices", "_ids")
INTEGER_WORDS = ("mask", "ids", "index", "indices", "token", "label", "target", "length")
"""Parameters of these names hold integers or booleans as often as not."""


def is_on_purpose(project: Project, meeting: Meeting, runs_in_half: bool) -> bool:
    """Whether the author of the code knows what meets there, or nothing 16-bit can come there.

    ``runs_in_half``: the weights are known to be 16-bit there, whatever the author thought.
    """
    return (
        meeting.operation.endswith(("loss", "cross_entropy"))
        or _is_exported(meeting)
        or _is_being_built(meeting)
        or (not runs_in_half and _is_believed_float32(project, meeting))
        or _is_joined_anywhere(project, meeting)
    )


def _is_believed_float32(project: Project, meeting: Meeting) -> bool:
    """Whether the code shows that its author took the weights for float32."""
    return _is_data_in_float32(meeting) or _is_in_island(project, meeting) or _is_cast_before(meeting)


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


def _is_data_in_float32(meeting: Meeting) -> bool:
    """``torch.tensor(array, dtype=torch.float32)`` for the class's own layers: its author knows their dtype."""
    source = meeting.odd.atom.source
    if meeting.odd.atom.made is not Made.CAST or meeting.meant.atom.role is not Role.WEIGHTS or source is None:
        return False
    while source.before is not None:
        source = source.before
    keyword = meeting.module.parents.get(source.node)
    call = meeting.module.parents.get(keyword) if isinstance(keyword, ast.keyword) else None
    return isinstance(call, ast.Call) and getattr(call.func, "attr", "") in DATA


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


def _is_cast_before(meeting: Meeting) -> bool:
    """``x = x.float()`` and then ``self.layer(x)``, or a helper that ends so: the layer is known to be float32.

    Where the function itself has cast the model, or another condition the tensor, nobody knows so.
    """
    source = meeting.odd.atom.source
    if meeting.operation != "module" or meeting.odd.atom.made is not Made.CAST or source is None:
        return False
    if meeting.meant.atom.role is not Role.WEIGHTS or meeting.odd.atom.mixture is not None:
        return False
    first = source.before if source.before is not None else source
    cast = _cast_call(meeting, first.node) if first.before is None else None
    if cast is None:
        return False
    statement = meeting.module.parents.get(cast)
    if isinstance(statement, ast.Return):
        return True
    return source.before is None and _binds_just_that(meeting, statement)


def _cast_call(meeting: Meeting, node: ast.AST) -> ast.AST | None:
    """The whole ``x.to(torch.float32).contiguous()`` around the node that gave the dtype."""
    parents = meeting.module.parents
    while not isinstance(node, ast.Call):
        parent = parents.get(node)
        if parent is None or isinstance(parent, ast.stmt):
            return None
        node = parent
    while True:
        method = parents.get(node)
        call = parents.get(method) if isinstance(method, ast.Attribute) and method.attr in SAME_VALUE else None
        if call is None:
            return node
        node = call


def _binds_just_that(meeting: Meeting, statement: ast.AST | None) -> bool:
    """Whether the operand is the name that ``statement`` bound, on every way to the meeting."""
    name = meeting.odd.node
    if not isinstance(statement, ast.Assign) or not isinstance(name, ast.Name):
        return False
    if not any(isinstance(target, ast.Name) and target.id == name.id for target in statement.targets):
        return False
    module = meeting.module
    later = [getattr(item.node, "lineno", 0) for item in module.scope_of(meeting.node).lookup(name.id)]
    if any(statement.lineno < line < meeting.node.lineno for line in later):
        return False
    block, node = module.parents.get(statement), module.parents.get(meeting.node)
    while node is not None and node is not block:
        node = module.parents.get(node)
    return node is block


def _names_positions(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in POSITION_WORDS)


def _is_joined_anywhere(project: Project, meeting: Meeting) -> bool:
    """A concatenation with (or a write of) what a function is given: only in a model it has the model's dtype."""
    atom = meeting.meant.atom
    if meeting.mix not in ("promotes", "raises-destination") or atom.role not in (Role.PARAMETER, Role.EXPRESSION):
        return False
    if meeting.meant.node is not meeting.odd.node and _names_positions(meeting.meant.node):
        return True
    if atom.role is Role.EXPRESSION:
        return False
    if any(word in atom.symbol.split()[1].lower() for word in INTEGER_WORDS):
        return True
    owner = meeting.module.scope_of(meeting.node).enclosing_class
    return owner is None or not is_torch_module(project, ProjectClass(meeting.module, owner))
