"""The role of an expression: what each operation makes of the roles of its operands."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from ...codemod.python.functions import called_function
from ...codemod.python.names import attribute_chain, resolve
from ...codemod.torch.dtypes import FP32, TORCH_DTYPES
from .role_classes import layer_output, made_by_class
from .role_frame import MAX_MEETINGS, Frame, Meeting
from .role_tables import (
    ARITHMETIC,
    FACTORIES,
    FULL_UNDER_AUTOCAST,
    IN_PARTS,
    IN_PLACE_PRODUCTS,
    KEEPING,
    LIKE,
    NEW,
    NO_TENSORS,
    PRODUCT_METHODS,
    PRODUCTS,
    WITH_OUT,
)
from .roles import (
    A_NONE,
    A_NUMBER,
    FULL,
    INPUT,
    LOW,
    NONE,
    NUMBER,
    UNKNOWN,
    UNKNOWN_ROLE,
    DtypeOf,
    Role,
    Saved,
    Value,
    join,
    joined_columns,
    joined_roles,
    promoted,
    role_of,
)

MAX_DEPTH = 40
_CASTS = {"float": FULL, "half": "float16", "bfloat16": "bfloat16", "double": "float64"}


def evaluate(frame: Frame, node: ast.expr, depth: int = 0) -> Value:
    """The value of an expression; what products meet on the way is noted in the frame."""
    if depth > MAX_DEPTH:
        return UNKNOWN_ROLE
    if isinstance(node, ast.Name):
        return frame.names.get(node.id, UNKNOWN_ROLE)
    if isinstance(node, ast.Constant):
        return A_NONE if node.value is None else A_NUMBER
    if isinstance(node, ast.Attribute):
        return _attribute(frame, node, depth)
    if isinstance(node, ast.Call):
        return _call(frame, node, depth + 1)
    if isinstance(node, ast.BinOp):
        return _binary(frame, node, depth + 1)
    if isinstance(node, ast.Subscript):
        return _subscript(frame, node, depth + 1)
    if isinstance(node, ast.IfExp):
        return join(evaluate(frame, node.body, depth + 1), evaluate(frame, node.orelse, depth + 1))
    if isinstance(node, ast.Tuple | ast.List):
        if any(isinstance(item, ast.Starred) for item in node.elts):
            return UNKNOWN_ROLE
        return tuple(evaluate(frame, item, depth + 1) for item in node.elts)
    if isinstance(node, ast.NamedExpr):
        value = evaluate(frame, node.value, depth + 1)
        frame.names[node.target.id] = value
        return value
    if isinstance(node, ast.UnaryOp):
        return A_NUMBER if isinstance(node.op, ast.Not) else evaluate(frame, node.operand, depth + 1)
    return A_NUMBER if isinstance(node, ast.Compare | ast.JoinedStr) else UNKNOWN_ROLE


def _attribute(frame: Frame, node: ast.Attribute, depth: int) -> Value:
    if isinstance(node.value, ast.Name) and node.value.id == frame.context and frame.context:
        return frame.names.get(f"ctx.{node.attr}", UNKNOWN_ROLE)
    written = TORCH_DTYPES.get(resolve(frame.project, frame.module, node) or "")
    if written is not None:
        return DtypeOf(Role(FULL if written == FP32 else written.name))
    chain = attribute_chain(node)
    if chain is not None and ".".join(chain) in frame.names:
        return frame.names[".".join(chain)]
    if chain is not None and len(chain) == 2 and chain[0] == "self" and node.attr not in KEEPING:
        made = made_by_class(frame, node)
        if made is not None:
            return made
    if node.attr == "dtype":
        return DtypeOf(role_of(evaluate(frame, node.value, depth + 1)))
    if node.attr in ("shape", "device", "ndim", "requires_grad", "is_cuda", "training", "names"):
        return A_NUMBER
    if node.attr in KEEPING:
        return evaluate(frame, node.value, depth + 1)
    return UNKNOWN_ROLE


def _binary(frame: Frame, node: ast.BinOp, depth: int) -> Value:
    operands = [(side, role_of(evaluate(frame, side, depth))) for side in (node.left, node.right)]
    if isinstance(node.op, ast.MatMult):
        return _product(frame, node, operands)
    return promoted([role for _, role in operands])


def _subscript(frame: Frame, node: ast.Subscript, depth: int) -> Value:
    value = evaluate(frame, node.value, depth)
    if isinstance(value, Saved):
        value = joined_columns(value.rows) or UNKNOWN_ROLE
    if not isinstance(value, tuple):
        return value if isinstance(value, Role) else UNKNOWN_ROLE
    index = node.slice
    if isinstance(index, ast.Constant) and isinstance(index.value, int) and -len(value) <= index.value < len(value):
        return value[index.value]
    if isinstance(index, ast.Slice) and index.step is None:
        ends = [end.value if isinstance(end, ast.Constant) else end for end in (index.lower, index.upper)]
        numbers = [end for end in ends if end is None or isinstance(end, int)]
        if len(numbers) == 2:
            return value[numbers[0] : numbers[1]]
    return joined_roles([role_of(item) for item in value]) if value else UNKNOWN_ROLE


# --- calls ------------------------------------------------------------------------------------------------------------


def _call(frame: Frame, node: ast.Call, depth: int) -> Value:
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr == "save_for_backward":
        plain = list(takewhile(lambda item: not isinstance(item, ast.Starred), node.args))
        saves = frame.saves if len(plain) == len(node.args) else frame.open_saves
        saves[node] = tuple(evaluate(frame, item, depth) for item in plain)
        return A_NONE
    name = resolve(frame.project, frame.module, func) or ""
    if name.startswith("torch."):
        return _function(frame, node, name.rpartition(".")[2], depth)
    target = called_function(frame.project, frame.module, node)
    if target is not None:
        values = {key: evaluate(frame, item, depth) for key, item in target.arguments(node).items()}
        made = replace(role_of(frame.inline(target, values, frame.autocast)), dequantized=None)
        return _marked(frame, node, made, [role_of(value) for value in values.values()])
    if isinstance(func, ast.Attribute):
        given = role_of(evaluate(frame, node.args[0], depth)) if node.args else UNKNOWN_ROLE
        return layer_output(frame, node, func, given) or _method(frame, node, func, depth)
    arguments = [role_of(evaluate(frame, item, depth)) for item in node.args if not isinstance(item, ast.Starred)]
    if isinstance(func, ast.Name) and func.id in NO_TENSORS:
        return A_NUMBER
    return _marked(frame, node, UNKNOWN_ROLE, arguments)


def _marked(frame: Frame, node: ast.Call, made: Role, arguments: Sequence[Role]) -> Role:
    """The result of a call that is not known to the last: does it come from gradients, or from a quantized weight?"""
    if made.kind == UNKNOWN and _dequantizes(node):
        return Role(UNKNOWN, dequantized=node)
    graded = made.graded or (made.kind == UNKNOWN and any(role.graded for role in arguments))
    return Role(made.kind, made.of, graded, made.dequantized)


def _dequantizes(node: ast.Call) -> bool:
    """A call that turns a quantized weight back into numbers without being told their dtype."""
    if "dequant" not in (attribute_chain(node.func) or [""])[-1].lower():
        return False
    given = [*node.args, *(item.value for item in node.keywords)]
    told = any("dtype" in ast.unparse(item) for item in given) or any(item.arg == "dtype" for item in node.keywords)
    return not told and len(node.args) + len(node.keywords) >= 2


def _function(frame: Frame, node: ast.Call, last: str, depth: int) -> Value:
    """A function of torch."""
    values = [(item, evaluate(frame, item, depth)) for item in node.args if not isinstance(item, ast.Starred)]
    named = {item.arg: item.value for item in node.keywords if item.arg}
    operands = [(item, role_of(value)) for item, value in values]
    if last in PRODUCTS:
        operands += [
            (item, role_of(evaluate(frame, item, depth)))
            for key, item in named.items()
            if key in ("input", "weight", "bias", "mat1", "mat2", "other", "tensor1", "tensor2")
        ]
        if last in WITH_OUT and "out" in named:
            return _with_out(frame, node, named["out"], operands, depth)
        return _product(frame, node, operands)
    dtype = _written_dtype(frame, named.get("dtype"), depth)
    first = operands[0][1] if operands else UNKNOWN_ROLE
    if last in LIKE:
        return dtype or Role(first.kind, first.of)
    if last in FACTORIES:
        return dtype or Role(FULL)
    if last in FULL_UNDER_AUTOCAST:
        return dtype or (Role(FULL, graded=first.graded) if frame.autocast else first)
    if last in ARITHMETIC:
        return promoted([role for _, role in operands])
    if last in NO_TENSORS:
        return A_NUMBER
    if last in KEEPING:
        return dtype or first
    return Role(UNKNOWN, graded=any(role.graded for _, role in operands))


def _written_dtype(frame: Frame, node: ast.expr | None, depth: int) -> Role | None:
    if node is None:
        return None
    value = evaluate(frame, node, depth)
    return Role(value.role.kind, value.role.of) if isinstance(value, DtypeOf) else UNKNOWN_ROLE


def _method(frame: Frame, node: ast.Call, func: ast.Attribute, depth: int) -> Value:
    receiver = evaluate(frame, func.value, depth)
    role = role_of(receiver)
    named = {item.arg: item.value for item in node.keywords if item.arg}
    operands = [
        (item, role_of(evaluate(frame, item, depth))) for item in node.args if not isinstance(item, ast.Starred)
    ]
    if func.attr == "apply":
        frame.applied[node] = tuple(other for _, other in operands)
    if func.attr in IN_PLACE_PRODUCTS:
        frame.meetings[node] = Meeting(node, tuple(operands), (func.value, role), True, frame.autocast)
        return role
    if func.attr in PRODUCT_METHODS and operands:
        return _product(frame, node, [(func.value, role), *operands])
    if func.attr in _CASTS or func.attr in ("to", "type", "type_as"):
        return _cast(frame, node, func, role, depth)
    if func.attr in NEW:
        return _written_dtype(frame, named.get("dtype"), depth) or Role(role.kind, role.of)
    if func.attr in FULL_UNDER_AUTOCAST:
        given = _written_dtype(frame, named.get("dtype"), depth)
        return given or (Role(FULL, graded=role.graded) if frame.autocast else role)
    if func.attr in ARITHMETIC:
        return promoted([role, *(item for _, item in operands)])
    if func.attr in NO_TENSORS:
        return A_NUMBER
    if func.attr in KEEPING:
        return role if func.attr in IN_PARTS else receiver
    return _marked(frame, node, UNKNOWN_ROLE, [role, *(item for _, item in operands)])


def _cast(frame: Frame, node: ast.Call, func: ast.Attribute, role: Role, depth: int) -> Role:
    if func.attr in _CASTS:
        return Role(_CASTS[func.attr], graded=role.graded)
    if func.attr == "type_as" and node.args:
        return Role(*_kind(role_of(evaluate(frame, node.args[0], depth))), graded=role.graded)
    for item in (*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("dtype", "other"))):
        value = evaluate(frame, item, depth)
        if isinstance(value, DtypeOf):
            return Role(*_kind(value.role), graded=role.graded)
        if not _is_device(item, value):
            return Role(UNKNOWN, graded=role.graded)
    return role


def _kind(role: Role) -> tuple[str, str]:
    return role.kind, role.of


def _is_device(item: ast.expr, value: Value) -> bool:
    if isinstance(item, ast.Constant):
        return isinstance(item.value, str | bool)
    return value == A_NUMBER or "device" in ast.unparse(item)


# --- products ---------------------------------------------------------------------------------------------------------


def _product(frame: Frame, node: ast.Call | ast.BinOp, operands: list[tuple[ast.expr, Role]]) -> Role:
    tensors = [(item, role) for item, role in operands if role.kind not in (UNKNOWN, NUMBER, NONE)]
    graded = any(role.graded for _, role in operands)
    if len(frame.meetings) < MAX_MEETINGS:
        frame.meetings[node] = Meeting(node, tuple(operands), None, False, frame.autocast)
    if frame.autocast:
        return Role(LOW, graded=graded)
    kinds = {_kind(role) for _, role in tensors}
    return Role(*kinds.pop(), graded=graded) if len(kinds) == 1 and len(tensors) > 1 else Role(UNKNOWN, graded=graded)


def _with_out(frame: Frame, node: ast.Call, out: ast.expr, operands: list[tuple[ast.expr, Role]], depth: int) -> Value:
    value = evaluate(frame, out, depth)
    role = role_of(value)
    if role.kind == NONE:
        return _product(frame, node, operands)
    frame.meetings[node] = Meeting(node, tuple(operands), (out, role), False, frame.autocast)
    if role.kind == INPUT:  # None may be what decides at run time
        return Role(UNKNOWN, graded=any(item.graded for _, item in operands))
    return role
