"""Which operands of a call that a rehearsal saw fail are of different dtypes, and how the right one is said."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..python.names import ModuleNames
from ..python.seen import Seen
from ..torch.tables.operations import TorchOperation, operation

if TYPE_CHECKING:
    from ..observed.observation import Failure, SeenOperand

FLOATING = ("float16", "bfloat16", "float32", "float64")
"""From narrow to wide."""


@dataclass(frozen=True, slots=True)
class TakenOperand:
    """An expression that brings a floating tensor into a call."""

    node: ast.expr
    dtype: str
    operand: SeenOperand | None = None


@dataclass(frozen=True, slots=True)
class OperandPair:
    """The operand that is to be cast, and what it meets: another expression, or the weights of what is called."""

    odd: TakenOperand
    meant: TakenOperand | None
    dtype: str
    """The dtype of what it meets."""


def pairs_of(seen: Seen, module: ModuleNames, node: ast.expr, failure: Failure) -> list[OperandPair]:
    """The operands to cast, each with what it meets; none where it is not known which they are."""
    involved = [each.dtype for each in failure.operands if each.dtype in FLOATING]
    taken = [each for each in _taken(seen, module, node, failure) if each.dtype in (involved or FLOATING)]
    if isinstance(node, ast.Subscript) or _writes(module, node, failure):
        return _written(module, node, taken)
    dtypes = {each.dtype for each in taken}
    if len(dtypes) > 1:
        return _among(taken)
    others = [dtype for dtype in dict.fromkeys(involved) if dtype not in dtypes]
    if not taken or len(others) != 1 or not isinstance(node, ast.Call):
        return []
    return [OperandPair(each, None, others[0]) for each in {ast.unparse(item.node): item for item in taken}.values()]


def operation_at(module: ModuleNames, node: ast.expr, failure: Failure) -> TorchOperation | None:
    """The operation of torch that an expression certainly is; None for modules and other functions."""
    if failure.module_class:
        return None
    if isinstance(node, ast.BinOp):
        return operation("matmul") if isinstance(node.op, ast.MatMult) else None
    if not isinstance(node, ast.Call):
        return None
    name = module.qualified(node.func)
    if name is not None:
        return operation(name) if name.startswith("torch.") else None
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
    return operation(f"torch.Tensor.{name}")


def _taken(seen: Seen, module: ModuleNames, node: ast.expr, failure: Failure) -> list[TakenOperand]:
    by_name = {name: each for each in failure.operands for name in each.names}
    found = []
    for item in _expressions(module, node):
        operand = by_name.get(ast.unparse(item))
        dtypes = seen.dtypes_of(module, item)
        dtype = operand.dtype if operand is not None else dtypes[0] if len(dtypes) == 1 else ""
        if dtype in FLOATING:
            found.append(TakenOperand(item, dtype, operand or _operand_of(failure, dtype)))
    return found or _only_argument(module, node, failure)


def _only_argument(module: ModuleNames, node: ast.expr, failure: Failure) -> list[TakenOperand]:
    """The one argument of a module is the one tensor that it does not own."""
    given = [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
    given = [each for each in given if not isinstance(each, ast.Constant | ast.Starred | ast.List | ast.Tuple)]
    free = [each for each in failure.operands if not each.is_owned and each.dtype in FLOATING]
    owned = any(each.is_owned for each in failure.operands)
    if len(given) != 1 or len(free) != 1 or not owned or operation_at(module, node, failure) is not None:
        return []
    return [TakenOperand(given[0], free[0].dtype, free[0])]


def _operand_of(failure: Failure, dtype: str) -> SeenOperand | None:
    """The only operand of a dtype that no module owns."""
    found = [each for each in failure.operands if each.dtype == dtype and not each.is_owned]
    return found[0] if len(found) == 1 else None


def _expressions(module: ModuleNames, node: ast.expr) -> Iterator[ast.expr]:
    """What can bring a tensor, in the order in which operations count their operands."""
    if isinstance(node, ast.BinOp):
        yield from (node.left, node.right)
    elif isinstance(node, ast.Subscript):
        statement = module.statement_of(node)
        if isinstance(statement, ast.Assign) and statement.targets == [node]:
            yield from (node.value, statement.value)
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and module.qualified(node.func) is None:
            yield node.func.value
        for item in (*node.args, *(each.value for each in node.keywords)):
            yield from item.elts if isinstance(item, ast.List | ast.Tuple) else (item,)


def _writes(module: ModuleNames, node: ast.expr, failure: Failure) -> bool:
    known = operation_at(module, node, failure)
    return known is not None and known.mix == "raises-destination"


def _written(module: ModuleNames, node: ast.expr, taken: Sequence[TakenOperand]) -> list[OperandPair]:
    """What is written is cast to the dtype of what it is written into, which stays."""
    first = next(_expressions(module, node), None)
    destination = next((each for each in taken if each.node is first), None)
    if destination is None:
        return []
    others = [each for each in taken if each.dtype != destination.dtype]
    return [OperandPair(each, destination, destination.dtype) for each in others]


def _among(taken: Sequence[TakenOperand]) -> list[OperandPair]:
    """The widest ones are cast to the dtype of the others."""
    ordered = sorted({each.dtype for each in taken}, key=FLOATING.index)
    meant = [each for each in taken if each.dtype == ordered[0]]
    said = next((each for each in meant if isinstance(each.node, ast.Name | ast.Attribute)), meant[0])
    return [OperandPair(each, said, said.dtype) for each in taken if each.dtype != said.dtype]
