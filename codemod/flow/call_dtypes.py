"""Dtypes that are handed to calls: ``dtype=...``, ``.to(...)``, and the default dtype where none is given."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..python.scopes import is_none, text_of
from ..torch.dtypes import FP32, HALVES
from ..torch.weights import is_device
from .dtype_expressions import MAX_TEXT, dtype_atoms
from .frame import Frame
from .lattice import UNKNOWN_VALUE, Atom, Kind, MadeHow, Role, Value
from .meetings import NodeValue

NamedValues = list[tuple[str, ast.expr, Value]]
"""The keyword arguments of a call: name (``**`` for an unpacked one), expression, value."""


def default_atoms(frame: Frame, node: ast.expr, text: str, made: MadeHow) -> tuple[Atom, ...]:
    """The atom of the default dtype; none where the project changes it."""
    if frame.analysis.changes_default_dtype:
        return ()
    source = frame.source(node, f"{text} in float32, the default dtype" if made is MadeHow.MODULE else text)
    return (Atom(FP32, source=source, made=made),)


def given_atoms(frame: Frame, named: NamedValues) -> tuple[Atom, ...] | None:
    """The atoms of ``dtype=...``; None where it is not given (or None)."""
    for key, item, value in named:
        if key in ("dtype", "torch_dtype") and not is_none(item):
            return atoms_of_dtype(frame, item, value)
    return None


def atoms_of_dtype(frame: Frame, node: ast.expr, value: Value) -> tuple[Atom, ...]:
    """The atoms a dtype-valued argument stands for, made by a cast from now on."""
    if value.kind is not Kind.DTYPE or not value.atoms:
        atoms = dtype_atoms(frame, node)
    elif _is_chosen(value.atoms):
        return (_choice(frame, node, value.atoms),)
    else:
        atoms = value.atoms
    return tuple(replace(atom, made=MadeHow.CAST) if atom.dtype is not None else atom for atom in atoms)


def _is_chosen(atoms: tuple[Atom, ...]) -> bool:
    """Whether the dtype is one of several, float32 and a 16-bit one among them, that some option picks."""
    named = {atom.dtype for atom in atoms}
    return None not in named and FP32 in named and not named.isdisjoint(HALVES)


def _choice(frame: Frame, node: ast.expr, atoms: tuple[Atom, ...]) -> Atom:
    """One symbol for a dtype that is picked once: whatever is cast to it has the same dtype in every run."""
    text = text_of(node)[:MAX_TEXT]
    named = frozenset(atom.dtype for atom in atoms if atom.dtype is not None)
    source = frame.source(node, f"{text} is given")
    return Atom(symbol=text, role=Role.EXPRESSION, source=source, expression=node, candidates=named)


def as_tensor(value: Value) -> Value:
    return Value(Kind.TENSOR, value.atoms if value.kind is Kind.TENSOR else ())


def moved(frame: Frame, node: ast.expr, operands: list[NodeValue], named: NamedValues) -> Value:
    """``x.to(...)``: a dtype, a device, both, another tensor, or something that is not known."""
    receiver = operands[0][1] if operands else UNKNOWN_VALUE  # `torch.to()` has none
    first, scalar = as_tensor(receiver), receiver.scalar
    given = given_atoms(frame, named)
    if given is not None:
        return Value(Kind.TENSOR, given, scalar=scalar)
    for item, value in operands[1:]:
        if value.kind is Kind.DTYPE:
            return Value(Kind.TENSOR, atoms_of_dtype(frame, item, value), scalar=scalar)
        if value.kind is Kind.TENSOR:
            return Value(Kind.TENSOR, value.atoms, scalar=scalar)
        if not is_device(item) and value.kind is not Kind.NUMBER:
            named_so = "dtype" in text_of(item).lower()
            return Value(Kind.TENSOR, dtype_atoms(frame, item) if named_so else (), scalar=scalar)
    if any(key == "**" for key, _, _ in named):
        return Value(Kind.TENSOR, scalar=scalar)
    return replace(first, scalar=scalar)
