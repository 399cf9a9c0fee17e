"""Evaluates attributes: the dtype of a tensor, a table of a scheduler, a field of what a model returns."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..python.scopes import text_of
from ..releases.pins import allowed
from ..torch.dtypes import FP32, Dtype
from ..torch.half_words import weights_can_be_half
from ..torch.tables.libraries import FLOAT32_TABLES, OUTPUT_ATTRIBUTES
from .classes import attribute_value, model_by_name
from .containers import holds_by_name, part_named
from .frame import Frame
from .lattice import NUMBER_VALUE, UNKNOWN_VALUE, Atom, Kind, MadeHow, Role, Value, as_floating
from .records import field_of

SAME_DTYPE_ATTRIBUTES = {"data", "T", "mT", "H", "grad", "real", "values"}
PAIR = ("values", "indices")
"""What `torch.max(x, 1)` and `x.topk(3)` give, in their order."""
NUMBER_ATTRIBUTES = {"shape", "ndim", "device", "requires_grad", "is_cuda", "layout", "names"}


def attribute_of(frame: Frame, node: ast.Attribute, base: Value) -> Value:
    """What ``base.name`` is, by what ``base`` is."""
    name = node.attr
    if name == "dtype":
        return _dtype_of(frame, node, base)
    if name in NUMBER_ATTRIBUTES:
        return NUMBER_VALUE
    held = part_named(base, name) if holds_by_name(base) else field_of(base, name)
    if held is not None or base.kind is Kind.RECORD:
        return held or UNKNOWN_VALUE
    if base.kind is Kind.MODULE:
        known = _said_here(frame, node, attribute_value(frame, base, name))
        return known if known.kind is not Kind.UNKNOWN else model_by_name(node)
    if is_float32_table(node):
        source = frame.source(node, f"the scheduler keeps {name} in float32")
        return Value(Kind.TENSOR, (Atom(FP32, source=source, made=MadeHow.TABLE),))
    if base.kind is Kind.SEQUENCE and name in PAIR and not base.label and len(base.items or ()) == len(PAIR):
        return (base.items or ())[PAIR.index(name)]
    if base.kind is Kind.TENSOR and name in OUTPUT_ATTRIBUTES:
        return Value(Kind.TENSOR) if name == "logits" and _are_raised(frame) else as_floating(base)
    if base.kind is Kind.TENSOR and name in SAME_DTYPE_ATTRIBUTES:
        return base
    return model_by_name(node) if base.kind is Kind.UNKNOWN else UNKNOWN_VALUE


def _are_raised(frame: Frame) -> bool:
    """Whether all releases of transformers that may run here are older than 4.46, which gives logits as computed."""
    versions = allowed(frame.project, "transformers", frame.module.document.path)
    return versions is not None and not versions.may_reach("4.46")


def _said_here(frame: Frame, node: ast.Attribute, value: Value) -> Value:
    """``self.dtype``, which the constructor took from its parameter: here it is called ``self.dtype``."""
    if value.kind is not Kind.DTYPE or all(atom.role is not Role.EXPRESSION for atom in value.atoms):
        return value
    text = text_of(node)
    half, named = any(atom.is_half for atom in value.atoms), named_by(value.atoms)
    source = frame.source(node, f"{text} is given")
    atom = Atom(symbol=text, role=Role.EXPRESSION, can_be_half=half, source=source, expression=node, candidates=named)
    return Value(Kind.DTYPE, (atom,))


def is_float32_table(node: ast.Attribute) -> bool:
    """``noise_scheduler.alphas_cumprod``: a table that a library's object keeps in float32."""
    holder = node.value
    name = holder.attr if isinstance(holder, ast.Attribute) else holder.id if isinstance(holder, ast.Name) else ""
    return any(word in name and node.attr in attributes for word, attributes in FLOAT32_TABLES.items())


def _dtype_of(frame: Frame, node: ast.Attribute, base: Value) -> Value:
    """``x.dtype``: the atoms of ``x``, or a symbol of its own."""
    if base.recast:
        return UNKNOWN_VALUE  # that of one of its parameters
    if base.kind in (Kind.TENSOR, Kind.MODULE) and base.atoms:
        return Value(Kind.DTYPE, tuple(atom for atom in base.atoms))
    if base.kind is Kind.NUMBER or base.kind is Kind.ARRAY:
        return UNKNOWN_VALUE
    text = text_of(node)
    source = frame.source(node, f"{text} is followed")
    own = frame.own_weights
    followed = base.kind is not Kind.MODULE
    half = not followed or (own.can_be_half if own is not None else weights_can_be_half(frame.project))
    made = MadeHow.FOLLOWED if followed else MadeHow.PLAIN
    atom = Atom(symbol=text, role=Role.EXPRESSION, can_be_half=half, source=source, expression=node, made=made)
    return Value(Kind.DTYPE, (atom,))


def named_by(atoms: Iterable[Atom]) -> frozenset[Dtype]:
    """The dtypes that some atoms are, or are named for their symbols."""
    found: set[Dtype] = set()
    for atom in atoms:
        found |= {atom.dtype} if atom.dtype is not None else atom.candidates
    return frozenset(found)
