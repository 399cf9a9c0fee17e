"""Other casts of what meets: nobody can tell from the text alone which of them are taken, so nothing is said there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.flow.frame import Meeting
from ...codemod.half.atom_places import chain_of
from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import function_of, position
from ...codemod.torch.api import NARROWING

MOVING = ("device", "non_blocking", "memory_format", "copy")
"""Arguments of ``to`` that say nothing about a dtype."""


def is_cast_on_the_way(meeting: Meeting) -> bool:
    """Whether the operand, or the module it is fed to, is cast above by a call that is no part of what is known."""
    steps = [step.node for atom in (meeting.odd.atom, meeting.meant.atom) for step in chain_of(atom)]
    made = [step.node for step in chain_of(meeting.odd.atom) if _is_here(meeting, step.node)]
    begin = max((position(node) for node in made), default=(0, 0))
    operand, called = ast.unparse(meeting.odd.node), ast.unparse(meeting.meant.node)
    for call in _casts_above(meeting):
        receiver = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
        if call in steps:
            continue
        if receiver == operand and position(call) > begin and not is_discarded(meeting.module, call):
            return True
        if receiver and f"{called}.".startswith(f"{receiver}.") and _follows(call, operand):
            return True
    return False


def is_discarded(module: ModuleNames, call: ast.Call) -> bool:
    """``x.to(dtype)`` as a statement: it casts a module in place, and leaves a tensor as it is."""
    return isinstance(module.parents[call], ast.Expr)


def is_cast_below(meeting: Meeting) -> bool:
    """``y = torch.cat([mask, y])``, then ``y = y.to(dtype)``: what a join gives is cast before a layer reads it."""
    module = meeting.module
    joined = module.statement_of(meeting.node)
    names = {item.id for item in getattr(joined, "targets", ()) if isinstance(item, ast.Name)}
    for name in NARROWING if names else ():
        for call in module.calls_by_name.get(name, []):
            statement = module.statement_of(call)
            again = {item.id for item in getattr(statement, "targets", ()) if isinstance(item, ast.Name)} & names
            cast = again and isinstance(call.func, ast.Attribute) and not _only_moves(call)
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


def is_device(node: ast.expr) -> bool:
    """Whether an argument of ``to`` is a device: by its name, or a string."""
    if isinstance(node, ast.Constant):
        return True
    text = ast.unparse(node).lower()
    return "dtype" not in text and any(word in text for word in ("device", "cuda", "rank", "gpu"))
