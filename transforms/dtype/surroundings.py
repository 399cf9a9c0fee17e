"""What stands around a meeting: other casts of what meets, who reads the result, and authors who know about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import MadeHow, Role
from ...codemod.flow.results import may_be_prepared
from ...codemod.half.atom_places import chain_of
from ...codemod.python.arguments import receiver_of
from ...codemod.python.names import last_name
from ...codemod.python.paths import function_of, position
from ...codemod.source.project import Project
from ...codemod.torch.api import NARROWING
from ...codemod.torch.dtypes import HALVES
from ...codemod.torch.weights import is_device

MOVING = ("device", "non_blocking", "memory_format", "copy")
"""Arguments of ``to`` that say nothing about a dtype."""
POSITION_WORDS = ("index", "indices", "_ids")

# --- casts above and below: nobody can tell which of them are taken, so nothing is said there -------------------------


def is_cast_on_the_way(meeting: Meeting) -> bool:
    """Whether the operand, or the module it is fed to, is cast above by a call that is no part of what is known."""
    steps = [step.node for atom in (meeting.odd.atom, meeting.meant.atom) for step in chain_of(atom)]
    made = [step.node for step in chain_of(meeting.odd.atom) if _is_here(meeting, step.node)]
    begin = max((position(node) for node in made), default=(0, 0))
    operand, called = ast.unparse(meeting.odd.node), ast.unparse(meeting.meant.node)
    for call in _casts_above(meeting):
        owner = receiver_of(call)
        receiver = ast.unparse(owner) if owner is not None else ""
        if call in steps:
            continue
        is_kept = not isinstance(meeting.module.parents[call], ast.Expr)  # a statement leaves a tensor as it is
        if receiver == operand and position(call) > begin and is_kept:
            return True
        if receiver and f"{called}.".startswith(f"{receiver}.") and _follows(call, operand):
            return True
    return False


def is_cast_below(meeting: Meeting) -> bool:
    """``y = torch.cat([mask, y])``, then ``y = y.to(dtype)``: what a join gives is cast before a layer reads it."""
    module = meeting.module
    joined = module.statement_of(meeting.node)
    names = {item.id for item in getattr(joined, "targets", ()) if isinstance(item, ast.Name)}
    for name in NARROWING if names else ():
        for call in module.calls_by_name.get(name, []):
            statement = module.statement_of(call)
            again = {item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)} & names
            cast = again and receiver_of(call) is not None and not _only_moves(call)
            below = position(call) > position(meeting.node) and module.parents[statement] is module.parents[joined]
            if cast and below and not _is_called_between(meeting, again, joined, statement):
                return True
    return False


def _is_called_between(meeting: Meeting, names: set[str], first: ast.stmt, last: ast.stmt) -> bool:
    """Whether the tensor is passed to a call between two statements of one block; its own methods do not count."""
    module = meeting.module
    for name in names:
        for load in module.name_loads.get(name, []):
            parent = module.parents[load]
            between = position(first) < position(load) < position(last) and load not in set(ast.walk(first))
            if between and isinstance(parent, ast.Call | ast.keyword | ast.Tuple | ast.List):
                return True
    return False


def _is_here(meeting: Meeting, node: ast.AST) -> bool:
    inside = node in meeting.module.parents and hasattr(node, "lineno")
    return inside and function_of(meeting.module, node) is function_of(meeting.module, meeting.node)


def _casts_above(meeting: Meeting) -> Iterator[ast.Call]:
    module = meeting.module
    for name in NARROWING:
        for call in module.calls_by_name.get(name, []):
            if position(call) < position(meeting.node) and _is_here(meeting, call) and not _only_moves(call):
                yield call


def _only_moves(call: ast.Call) -> bool:
    given = [*call.args, *(item.value for item in call.keywords if item.arg not in MOVING)]
    return bool(given) and all(is_device(item) for item in given)


def _follows(call: ast.Call, operand: str) -> bool:
    """``module.to(x)``, ``module.to(x.dtype)``: the weights follow the operand."""
    given = [*call.args, *(item.value for item in call.keywords)]
    return any(ast.unparse(item) in (operand, f"{operand}.dtype") for item in given)


def is_cast_to_the_other(meeting: Meeting) -> bool:
    """Whether one operand is ``y.to(x.dtype)``, ``y.to(x)`` or ``y.type_as(x)``, and the other one is ``x``."""
    odd, meant = meeting.odd.node, meeting.meant.node
    return odd is not meant and (_casts_to(odd, meant) or _casts_to(meant, odd))


def _casts_to(cast: ast.expr, other: ast.expr) -> bool:
    if not isinstance(cast, ast.Call) or receiver_of(cast, "to", "type", "type_as") is None:
        return False
    name, text = last_name(cast.func), ast.unparse(other)
    same = name != "type" and [ast.unparse(item) for item in cast.args[:1]] == [text]
    given = [*cast.args, *(item.value for item in cast.keywords if item.arg == "dtype")]
    return same or (name != "type_as" and f"{text}.dtype" in map(ast.unparse, given))


def is_only_for_prepared(project: Project, meeting: Meeting) -> bool:
    """Whether nothing but models that accelerate runs under its autocast get the result: autocast casts it there."""
    module = meeting.module
    around = [module.parents.get(item) for item in readers(meeting)]
    calls = [module.parents.get(item) if isinstance(item, ast.keyword) else item for item in around]
    return bool(calls) and all(
        isinstance(each, ast.Call) and may_be_prepared(project, module, each.func) for each in calls
    )


def readers(meeting: Meeting) -> list[ast.expr]:
    """Where the result of a concatenation is read: by its name, below it in its function, or right where it is made."""
    module = meeting.module
    statement = module.statement_of(meeting.node)
    names = [item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)]
    holder = module.scope_of(meeting.node).function
    loads = [item for name in names for item in module.name_loads.get(name, [])]
    here = [item for item in loads if module.scope_of(item).function is holder]
    below = [item for item in here if position(item) > position(statement)]
    return [item for item in below if module.statement_of(item) is not statement] if names else [meeting.node]


def is_on_purpose(meeting: Meeting) -> bool:
    """Whether the author of the code knows what meets there, or nothing 16-bit can come there."""
    is_loss = meeting.operation.endswith(("loss", "cross_entropy")) and not _weighs_classes(meeting)
    return is_loss or _is_exported(meeting) or _is_asked_for_shape(meeting) or _is_joined_anywhere(meeting)


def _weighs_classes(meeting: Meeting) -> bool:
    """``F.cross_entropy(logits, labels, weight=torch.ones(3))``: class weights need the dtype of the logits."""
    weighed = meeting.operation in ("cross_entropy", "nll_loss")
    return weighed and meeting.mix == "raises" and meeting.odd.atom.made is MadeHow.FACTORY


def _is_exported(meeting: Meeting) -> bool:
    """Exports run the model in float32, on inputs made for it."""
    path = meeting.module.document.path.lower()
    function = meeting.function.name.lower() if meeting.function is not None else ""
    stem = path.rpartition("/")[2]
    return "onnx" in path or stem.startswith("export") or "onnx" in function or "export" in function


def _is_asked_for_shape(meeting: Meeting) -> bool:
    """A trial run while the model is built: the weights are float32 then."""
    parent = meeting.module.parents.get(meeting.node)
    return isinstance(parent, ast.Attribute) and parent.attr in ("shape", "size", "ndim")


def _is_joined_anywhere(meeting: Meeting) -> bool:
    """A concatenation with (or a write of) positions, which have a dtype of their own."""
    if meeting.mix not in ("promotes", "raises-destination") or meeting.meant.atom.role is not Role.EXPRESSION:
        return False
    text = ast.unparse(meeting.meant.node).lower()
    return meeting.meant.node is not meeting.odd.node and any(word in text for word in POSITION_WORDS)


def is_other_half(meeting: Meeting) -> bool:
    """Whether a 16-bit type that is written down meets weights of the other one, or whose dtype the project chooses."""
    meant = meeting.meant.atom.dtype
    other = meant is None or (meeting.certain and meant in HALVES)
    entered = meeting.operation == "module" and meeting.mix == "raises"
    return other and entered and meeting.odd.atom.dtype in HALVES


def is_left_by_autocast(meeting: Meeting) -> bool:
    """Whether what a region computed in 16 bits meets a float32 tensor where autocast is off."""
    return meeting.mix == "raises" and meeting.meant.atom.made is MadeHow.AUTOCAST
