"""What a model gives inside an open region, where nothing is known of its forward."""

from __future__ import annotations

import ast

from ..python.names import attribute_chain
from ..torch.dtypes import HALVES, Dtype
from ..torch.tables.libraries import MODEL_WORDS, OUTPUT_ATTRIBUTES
from .classes import ProjectClass
from .endings import may_end_wide
from .frame import Autocasting, Frame
from .lattice import UNKNOWN_VALUE, Atom, Kind, Role, Source, Value, as_floating
from .prepared import may_be_prepared

BY_WEIGHTS = "result of the weights of"
"""How the symbol of a result begins that 16-bit weights gave, not autocast."""
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
    text = ast.unparse(called)
    source = Source(frame.module.document.path, node, f"{text} computes it in this region", frame.autocast.region)
    atom = Atom(
        symbol=f"result of {text}", role=Role.RESULT, can_be_half=False, source=source, expression=called,
        candidates=region_dtypes(frame),
    )  # fmt: skip
    return Value(Kind.TENSOR, (atom,), label="output")


def region_dtypes(frame: Frame) -> frozenset[Dtype]:
    """What the open region can compute in, as far as that is known."""
    named = frame.autocast.atom
    return named.candidates or frozenset({named.dtype} if named.dtype is not None else ())


def of_16_bit_weights(frame: Frame, node: ast.Call, module: Value, known: Value) -> Value:
    """What a model of the project gives whose weights are 16-bit, where its own code is not followed to the end."""
    detail = module.detail
    dtypes = frozenset(atom.dtype for atom in module.atoms if atom.dtype in HALVES)
    if not isinstance(detail, ProjectClass) or len(dtypes) != 1 or len(module.atoms) != 1:
        return known
    fields = {key: value for key, value in known.fields().items() if key in OUTPUT_ATTRIBUTES}
    unknown = {key for key, value in fields.items() if value.kind in (Kind.UNKNOWN, Kind.TENSOR) and not value.atoms}
    if not unknown and known.kind is not Kind.UNKNOWN:
        return known
    if frame.autocast.state is Autocasting.ON or may_end_wide(frame.project, detail):
        return known
    text, before = ast.unparse(node.func), module.atoms[0].source
    source = Source(frame.module.document.path, node, f"{text} computes it with these weights", before)
    atom = Atom(
        symbol=f"{BY_WEIGHTS} {text}", role=Role.RESULT, can_be_half=False, source=source, expression=node.func,
        candidates=frozenset(item for item in dtypes if item is not None),
    )  # fmt: skip
    result = Value(Kind.TENSOR, (atom,), label="output")
    if known.kind is Kind.UNKNOWN:
        return result
    filled = as_floating(result)
    return known.with_fields({key: filled if key in unknown else value for key, value in known.fields().items()})


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
