"""Operations of torch applied to values: what meets, and which dtype the result has."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..python.scalars import is_scalar
from ..torch.dtypes import BF16, FP16, FP32, FP64, HALVES, Dtype
from ..torch.tables.kernels import WITHOUT_KERNELS
from ..torch.tables.operations import TorchOperation, operation
from .call_dtypes import NamedValues, as_tensor, default_atoms, given_atoms, moved
from .frame import Application, Autocasting, Frame, MixedProduct
from .lattice import (
    ARRAY_VALUE,
    BEGINNING,
    BOOL_TENSOR,
    INT64,
    INT_TENSOR,
    NUMBER_VALUE,
    UNKNOWN_VALUE,
    Atom,
    Kind,
    MadeHow,
    Value,
    as_floating,
)
from .left_out import is_left_out
from .meetings import NodeValue, report_mix
from .promotion import of_weights_only, promote

GIVES_DIMENSIONS = {"reshape", "view", "unsqueeze", "expand", "repeat", "flatten", "ravel", "view_as", "expand_as"}
WATCHED = {"numpy", "asarray", "array", "interpolate", "upsample"}
"""Operations whose operands some rule wants to see; beside these what lacks 16-bit kernels."""


def apply_operation(
    frame: Frame,
    node: ast.expr,
    name: str,
    operands: list[NodeValue],
    named: NamedValues | None = None,
    *,
    method: bool = False,
) -> Value:
    """Apply an operation of the tables: record meetings, and give the result."""
    known = operation(name)
    named = named or []
    if known is None:
        return UNKNOWN_VALUE
    _watch(frame, node, known.name, operands, named, method=method)
    taking = _taking(known, operands, named, method=method)
    policy = known.autocast(frame.autocast.device) if frame.autocast.state is Autocasting.ON else ""
    out = _out(frame, named)
    writes_out = out is not None
    helped = policy in ("lower", "agree-lower", "fp32", "promote", "set_opt_dtype") and not writes_out
    if frame.record.observed and known.mix.startswith("raises"):
        _note_product(frame, node, known, taking, out)
    if policy in ("lower", "agree-lower") and not writes_out and known.mix != "raises-destination":
        return Value(Kind.TENSOR, (_autocast_atom(frame, node),))
    if known.mix not in ("none", "keeps-destination") and not helped:
        _meet(frame, node, known, taking)
    if out is not None:  # None may be what decides at run time
        certain = out[1].kind is Kind.TENSOR and not isinstance(out[0], ast.IfExp)
        return out[1] if certain else Value(Kind.TENSOR)
    wider = policy == "fp32" and any(atom.dtype == FP64 for _, value in taking for atom in value.atoms)
    if (policy == "fp32" and not wider) or (policy == "set_opt_dtype" and not given_atoms(frame, named)):
        atom = Atom(FP32, made=MadeHow.AUTOCAST, source=frame.source(node, f"autocast runs {known.name} in float32"))
        return Value(Kind.TENSOR, (atom,), scalar=_is_scalar(known, operands, named))
    result = _went_on(frame, known, taking, _result(frame, node, known, operands, taking, named))
    wide = frame.autocast.state is Autocasting.MAYBE and known.autocast("cuda") in ("fp32", "set_opt_dtype")
    return of_weights_only(result) if wide and result.kind is Kind.TENSOR else result


def _went_on(frame: Frame, known: TorchOperation, taking: list[NodeValue], result: Value) -> Value:
    """What an operation that refuses a mix gives in a run that goes on: all its operands were 16-bit there."""
    if frame.run is None or known.mix != "raises" or all(atom.dtype != FP32 for atom in result.atoms):
        return result
    atoms = [value.only for _, value in taking if value.only is not None]
    halves = [atom for atom in atoms if atom.dtype in HALVES]
    return Value(Kind.TENSOR, (halves[0],)) if halves else result


def _autocast_atom(frame: Frame, node: ast.expr) -> Atom:
    return frame.autocast.atom.seen_at(frame.module.document.path, node, "autocast computes this in 16 bits")


def _out(frame: Frame, named: NamedValues) -> NodeValue | None:
    """The buffer that is written into; ``out=None`` has none, and is the operation that autocast helps."""
    given = ((item, value) for key, item, value in named if key == "out" and value.kind is not Kind.NUMBER)
    return next((each for each in given if not is_left_out(frame, each[0])), None)


def _note_product(
    frame: Frame, node: ast.expr, known: TorchOperation, taking: list[NodeValue], out: NodeValue | None
) -> None:
    in_place = known.name.endswith("_") and bool(taking)
    target, operands = (taking[0], taking[1:]) if in_place else (out, taking)
    on = frame.autocast.state is Autocasting.ON
    frame.record.products[node] = MixedProduct(node, known.name, tuple(operands), target, on)


def _meet(frame: Frame, node: ast.expr, known: TorchOperation, taking: list[NodeValue]) -> None:
    if known.mix == "promotes" and known.name not in ("cat", "concat", "concatenate", "stack", "hstack", "vstack"):
        return
    if known.name == "einsum" and not _contracts(node):
        return
    if known.name in ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d") and len(taking) > 1:
        taking = taking[:2]
    if known.mix == "raises-mask" or known.name == "multi_head_attention_forward":
        taking = taking[:3]
    report_mix(frame, node, known.name, known.mix, taking)


def _contracts(node: ast.expr) -> bool:
    """Whether ``einsum`` sums over an index that two operands share; without one it multiplies, and promotes."""
    first = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str) and "->" in first.value):
        return True
    given, _, result = first.value.replace(" ", "").partition("->")
    operands = [set(operand) - set(result) - {"."} for operand in given.split(",")]
    return any(one & other for index, one in enumerate(operands) for other in operands[index + 1 :])


def _taking(known: TorchOperation, operands: list[NodeValue], named: NamedValues, *, method: bool) -> list[NodeValue]:
    """The operands that take part in the mix, lists of tensors spread out."""
    by_keyword = {key: (item, value) for key, item, value in named}
    found: list[NodeValue] = []
    for operand in known.operands_in(method=method):
        if operand.position < len(operands):
            in_list = operands[operand.position][1].kind is Kind.SEQUENCE or known.mix == "promotes"
            spread = operand.spread and not in_list
            chosen = operands[operand.position :] if spread else [operands[operand.position]]
        elif operand.keyword in by_keyword:
            chosen = [by_keyword[operand.keyword]]
        else:
            continue
        for item, value in chosen:
            found += _spread(item, value) if operand.spread else [(item, value)]
    return found


def _spread(node: ast.expr, value: Value) -> list[NodeValue]:
    if value.kind is not Kind.SEQUENCE:
        return [(node, value)]
    if not value.items or value.label == BEGINNING:
        return [(node, UNKNOWN_VALUE)]
    nodes = node.elts if isinstance(node, ast.List | ast.Tuple) and len(node.elts) == len(value.items) else None
    return [(nodes[index] if nodes else node, item) for index, item in enumerate(value.items)]


def _watch(
    frame: Frame, node: ast.expr, name: str, operands: list[NodeValue], named: NamedValues, *, method: bool
) -> None:
    watched = name in WATCHED or name in WITHOUT_KERNELS
    if not isinstance(node, ast.Call) or not watched:
        return
    receiver = operands[0][1] if method and operands else None
    arguments = [*operands[1 if method else 0 :], *((item, value) for _, item, value in named)]
    frame.record.applications[node] = Application(
        frame.module, node, name, receiver, tuple(arguments), frame.autocast, frame.function
    )


def _is_scalar(known: TorchOperation, operands: list[NodeValue], named: NamedValues) -> bool:
    if known.zero_dim == "always":
        return True
    if known.result == "factory" and operands and isinstance(operands[0][0], ast.Tuple | ast.List):
        return not operands[0][0].elts  # torch.rand(())
    if known.zero_dim == "without-dim":
        return len(operands) == 1 and not any(key in ("dim", "axis", "keepdim") for key, _, _ in named)
    if known.zero_dim == "literal":
        return bool(operands) and operands[0][1].kind is Kind.NUMBER and not isinstance(operands[0][0], ast.List)
    return False


def _result(
    frame: Frame,
    node: ast.expr,
    known: TorchOperation,
    operands: list[NodeValue],
    taking: list[NodeValue],
    named: NamedValues,
) -> Value:
    rule = known.result
    given = given_atoms(frame, named)
    first = operands[0][1] if operands else next((value for key, _, value in named if key == "input"), UNKNOWN_VALUE)
    scalar = _is_scalar(known, operands, named)
    if any(key == "**" for key, _, _ in named) and rule in ("factory", "arguments", "like", "factory:int64"):
        return Value(Kind.TENSOR)
    if rule.startswith("cast:"):
        return _cast_to(frame, node, first, Dtype(rule[5:]))
    if rule in ("factory", "arguments", "factory:int64", "data", "numpy"):
        return _born(frame, node, known, operands, given, scalar=scalar)
    if given is not None and rule in ("softmax-like", "sum-like", "like"):
        return Value(Kind.TENSOR, given, scalar=scalar)
    if rule in ("promote", "promote-float", "where"):
        branches = taking[-2:] if rule == "where" else taking
        return replace(promoted_operands(frame, branches, node), scalar=scalar and len(taking) == 1)
    if known.name == "view" and (given is not None or any(value.kind is Kind.DTYPE for _, value in operands[1:])):
        return moved(frame, node, operands, named)  # the same bytes, read as another dtype
    if rule in ("first", "first-float", "softmax-like", "sum-like", "like", "max-like", "complex", "real"):
        return _like_first(frame, node, known, first, operands, named, scalar=scalar)
    return _special_result(frame, node, rule, operands, named, first)


def promoted_operands(frame: Frame, operands: list[NodeValue], node: ast.expr) -> Value:
    """Promotion, where operands that are numbers for certain widen nothing."""
    values = [value for _, value in operands]
    if any(value.atoms for value in values if value.kind is Kind.TENSOR):
        values = [
            NUMBER_VALUE if value.kind is Kind.UNKNOWN and is_scalar(frame.project, frame.module, item) else value
            for item, value in operands
        ]
    return promote(values, frame.module.document.path, node)


def _special_result(
    frame: Frame, node: ast.expr, rule: str, operands: list[NodeValue], named: NamedValues, first: Value
) -> Value:
    if rule == "to":
        return moved(frame, node, operands, named)
    if rule in ("type_as", "operand:1"):
        by_keyword = [value for key, _, value in named if key in ("weight", "target", "other")]
        other = operands[1][1] if len(operands) > 1 else by_keyword[0] if by_keyword else UNKNOWN_VALUE
        return Value(Kind.TENSOR, other.atoms) if other.kind is Kind.TENSOR else Value(Kind.TENSOR)
    if rule == "bool":
        return BOOL_TENSOR
    if rule == "int64":
        return INT_TENSOR
    if rule == "values_indices":
        return Value(Kind.SEQUENCE, items=(as_tensor(first), INT_TENSOR))
    if rule == "tuple_of_first":
        return Value(Kind.SEQUENCE, items=(as_tensor(first),), label="each")
    if rule == "array":
        return ARRAY_VALUE
    return NUMBER_VALUE if rule in ("scalar", "none") else UNKNOWN_VALUE


def _like_first(
    frame: Frame,
    node: ast.expr,
    known: TorchOperation,
    first: Value,
    operands: list[NodeValue],
    named: NamedValues,
    *,
    scalar: bool,
) -> Value:
    rule = known.result
    if rule in ("complex", "real"):
        return Value(Kind.TENSOR)
    if rule == "max-like" and (len(operands) > 1 or any(key in ("dim", "axis") for key, _, _ in named)):
        along = any(key in ("dim", "axis") for key, _, _ in named) or operands[1][1].kind is Kind.NUMBER
        return Value(Kind.SEQUENCE, items=(as_tensor(first), INT_TENSOR)) if along else UNKNOWN_VALUE
    if known.name in GIVES_DIMENSIONS:
        first = replace(first, scalar=False)
    value = as_tensor(first)
    integral = any(atom.dtype is not None and atom.dtype not in (BF16, FP16, FP32, FP64) for atom in value.atoms)
    if rule == "first-float" and integral:
        alone = all(atom.dtype == INT64 for atom in value.atoms)
        text = f"{known.name}(...) of integers makes float32"
        made = default_atoms(frame, node, text, MadeHow.CAST) if alone else ()
        return Value(Kind.TENSOR, made, scalar=scalar or first.scalar)
    value = as_floating(value) if rule in ("first-float", "softmax-like") else value
    return replace(value, scalar=True) if scalar or first.scalar else value


def _cast_to(frame: Frame, node: ast.expr, first: Value, dtype: Dtype) -> Value:
    if first.kind in (Kind.NUMBER, Kind.ARRAY, Kind.SEQUENCE):
        return UNKNOWN_VALUE
    if dtype.name in ("int64", "int32", "int16", "int8", "uint8"):
        integral = bool(first.atoms) and all(atom.dtype == INT64 for atom in first.atoms)
        return first if integral else INT_TENSOR
    if dtype.name == "bool":
        return BOOL_TENSOR
    source = frame.source(node, f"{ast.unparse(node)[:60]} casts to {dtype.name}")
    return Value(Kind.TENSOR, (Atom(dtype, made=MadeHow.CAST, source=source),), scalar=first.scalar)


def _born(
    frame: Frame,
    node: ast.expr,
    known: TorchOperation,
    operands: list[NodeValue],
    given: tuple[Atom, ...] | None,
    *,
    scalar: bool,
) -> Value:
    if given is not None:
        return Value(Kind.TENSOR, given, scalar=scalar)
    if known.name == "normal" and not has_size(node):
        return as_tensor(next((value for _, value in operands if value.kind is not Kind.NUMBER), UNKNOWN_VALUE))
    if known.result == "factory:int64":
        source = frame.source(node, f"{known.name}(...) makes integers")
        return Value(Kind.TENSOR, (Atom(INT64, source=source),), scalar=scalar)
    array = operands[0][1] if operands and known.result in ("data", "numpy") else UNKNOWN_VALUE
    if array.kind is Kind.ARRAY and array.atoms:
        return Value(Kind.TENSOR, array.atoms, scalar=scalar)
    if known.result in ("data", "numpy", "arguments") and not _floats_given(known, operands):
        return Value(Kind.TENSOR, () if known.name != "arange" else (Atom(INT64),), scalar=scalar)
    text = f"{known.name}(...) without dtype makes float32"
    return Value(Kind.TENSOR, default_atoms(frame, node, text, MadeHow.FACTORY), scalar=scalar)


def has_size(node: ast.expr) -> bool:
    """Whether ``normal`` draws a tensor of a given size; else its result has the dtype of the mean and deviation."""
    return isinstance(node, ast.Call) and (len(node.args) > 2 or any(item.arg == "size" for item in node.keywords))


def _floats_given(known: TorchOperation, operands: list[NodeValue]) -> bool:
    """Whether what is handed to ``tensor``, ``full``, ``arange`` holds a float literal, and so makes float32."""
    chosen = operands[1:2] if known.name == "full" else operands
    for item, _ in chosen:
        for child in ast.walk(item):
            if isinstance(child, ast.Constant) and isinstance(child.value, float):
                return not any(isinstance(inner, ast.Call) for inner in ast.walk(item)) or known.name != "tensor"
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "float":
                return True
        if known.name == "full" and isinstance(item, ast.BinOp) and isinstance(item.op, ast.Div):
            return True
    return False
