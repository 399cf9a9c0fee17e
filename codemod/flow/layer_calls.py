"""A layer of ``torch.nn`` applied to its input: which dtype comes out, and what meets its weights."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..torch.dtypes import FP16, FP32
from ..torch.tables.layers import IN_FLOAT16, LAYERS, LayerRow
from .frame import Autocasting, Frame
from .lattice import INT_TENSOR, UNKNOWN_VALUE, Atom, Kind, MadeHow, Role, Value
from .meetings import NodeValue, report_input
from .promotion import of_weights_only

NORM = "raises-narrow-weight"
"""What layers do that may have float32 weights for 16-bit input: all norms but RMSNorm."""


def layer_forward(frame: Frame, node: ast.Call, name: str, module: Value, positional: list[NodeValue]) -> Value:
    """The output of ``torch.nn.<name>``; losses and containers are unknown."""
    layer = LAYERS.get(name)
    if layer is None or layer.role in ("loss", "container", "wrapper"):
        return UNKNOWN_VALUE
    item, value = positional[0] if positional else (node.func, UNKNOWN_VALUE)
    policy = layer.autocast(frame.autocast.device) if frame.autocast.state is Autocasting.ON else ""
    if layer.role == "weighted" and not policy and layer.mix != "promotes":
        _meet_weights(frame, node, layer, module, positional)
    return _shaped(layer, _result(frame, node, layer, policy, module, item, value))


def _meet_weights(frame: Frame, node: ast.Call, layer: LayerRow, module: Value, positional: list[NodeValue]) -> None:
    """The input, and for recurrent layers the first state, meet the weights."""
    taking = positional if layer.returns in ("output_state", "output_states", "states", "attention") else positional[:1]
    for item, value in taking:
        items = value.items or (value,)
        nodes = (
            item.elts
            if isinstance(item, ast.Tuple | ast.List) and len(item.elts) == len(items)
            else [item] * len(items)
        )
        for place, part in zip(nodes, items, strict=True):
            report_input(frame, node, place, part, module.atoms, module, takes_narrow=layer.mix == NORM)


def _result(
    frame: Frame, node: ast.Call, layer: LayerRow, policy: str, module: Value, item: ast.expr, value: Value
) -> Value:
    path = frame.module.document.path
    in_float16 = policy == "lower" and layer.name in IN_FLOAT16 and frame.autocast.device != "cpu"
    if in_float16 and frame.autocast.atom.dtype != FP16:
        return Value(Kind.TENSOR)
    if policy in ("lower", "agree-lower"):
        return Value(Kind.TENSOR, (frame.autocast.atom.seen_at(path, node, "autocast computes this in 16 bits"),))
    if policy in ("fp32", "set_opt_dtype"):
        source = frame.source(node, f"autocast runs {layer.name} in float32")
        return Value(Kind.TENSOR, (Atom(FP32, made=MadeHow.AUTOCAST, source=source),))
    if layer.result == "int64":
        return INT_TENSOR
    if layer.result == "weights":
        return Value(Kind.TENSOR, _given_by(layer, module))
    if frame.autocast.state is Autocasting.MAYBE and layer.autocast("cuda") in ("fp32", "set_opt_dtype"):
        value, module = of_weights_only(value), of_weights_only(module)
        if layer.role == "weighted":
            return Value(Kind.TENSOR, value.atoms or module.atoms)
    known = value.kind is Kind.TENSOR and bool(value.atoms)
    if any(atom.is_of_part for atom in module.atoms) and layer.result == "input":
        return Value(Kind.TENSOR, value.atoms if known else ())
    in_float32 = layer.mix == NORM and all(atom.dtype is FP32 for atom in module.atoms)
    if in_float32 and (known or frame.autocast.state is not Autocasting.OFF):
        return Value(Kind.TENSOR, value.atoms if known else ())  # float32 weights take 16-bit input, and keep its dtype
    if layer.role == "weighted" and (not known or (frame.run is not None and layer.mix != "promotes")):
        return Value(Kind.TENSOR, _given_by(layer, module))
    return Value(Kind.TENSOR, value.atoms) if value.kind is Kind.TENSOR else UNKNOWN_VALUE


def of_weights(module: Value) -> tuple[Atom, ...]:
    """The dtype of what a module gives, where it is that of its weights."""
    return tuple(replace(atom, made=MadeHow.OUTPUT) if atom.made is MadeHow.MODULE else atom for atom in module.atoms)


def _given_by(layer: LayerRow, module: Value) -> tuple[Atom, ...]:
    """The same, marked where an open region would give its low precision: not for an embedding, which looks up."""
    lowered = layer.autocast("cuda") in ("lower", "agree-lower")
    return tuple(
        replace(atom, made=MadeHow.LAYER) if lowered and atom.role is Role.WEIGHTS else atom
        for atom in of_weights(module)
    )


def _shaped(layer: LayerRow, result: Value) -> Value:
    """What the call gives around its first tensor."""
    if layer.returns in ("attention", "output_state", "output_states", "output_loss"):
        return Value(Kind.SEQUENCE, items=(result, UNKNOWN_VALUE))
    if layer.returns == "states":
        return Value(Kind.SEQUENCE, items=(result, result))
    return result
