"""What a model gives inside an open region, where nothing is known of its forward."""

from __future__ import annotations

import ast

from ..python.names import attribute_chain
from ..torch.tables.libraries import MODEL_WORDS
from .frame import Autocasting, Frame
from .lattice import UNKNOWN_VALUE, Atom, Kind, Role, Source, Value
from .prepared import may_be_prepared

FORWARD = {"forward", "encode", "decode", "__call__", "encode_image", "encode_text"}
"""Methods by which code applies a model."""
MODULE_METHODS = ("eval", "train", "parameters", "named_parameters", "state_dict", "load_state_dict", "requires_grad_")


def result_of(frame: Frame, node: ast.Call) -> Value:
    """The result of ``model(x)`` under autocast: 16-bit unless the model ends in float32; unknown for other calls."""
    called = node.func.value if isinstance(node.func, ast.Attribute) and node.func.attr in FORWARD else node.func
    if frame.autocast.state is not Autocasting.ON or not _is_model(frame, called):
        return UNKNOWN_VALUE
    if may_be_prepared(frame.project, frame.module, called):
        return UNKNOWN_VALUE
    text, named = ast.unparse(called), frame.autocast.atom
    dtypes = named.candidates or frozenset({named.dtype} if named.dtype is not None else ())
    source = Source(frame.module.document.path, node, f"{text} computes it in this region", frame.autocast.region)
    atom = Atom(
        symbol=f"result of {text}", role=Role.RESULT, can_be_half=False, source=source, expression=called,
        candidates=dtypes,
    )  # fmt: skip
    return Value(Kind.TENSOR, (atom,), label="output")


def _is_model(frame: Frame, node: ast.expr) -> bool:
    chain = attribute_chain(node)
    if chain is None or frame.analysis.qualified(frame.module, node) is not None:
        return False
    if chain != ["self"] and chain[0] != "self" and not frame.module.scope_of(node).lookup(chain[0]):
        return False
    named = chain[-1].lower().rstrip("_0123456789").rpartition("_")[2] in MODEL_WORDS
    return named or chain == ["self"] or any(_has(frame, chain, method) for method in MODULE_METHODS)


def _has(frame: Frame, chain: list[str], method: str) -> bool:
    """``x.eval()``, ``x.parameters()``: what only modules have."""
    return any(attribute_chain(node.value) == chain for node in frame.module.attribute_loads.get(method, []))
