"""What operands of several dtypes promote to: ``torch.promote_types`` (PyTorch 2.13) on abstract values.

The wider floating type wins, two different 16-bit types give float32, and zero-dimensional tensors and Python numbers
do not widen a tensor of the same category.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from ..torch.dtypes import BF16, FP16, FP32, FP64, HALVES
from .facts import opposed
from .lattice import (
    BOOL,
    FLOATING,
    INT64,
    MAX_ATOMS,
    NUMBER_VALUE,
    UNKNOWN_VALUE,
    Atom,
    Kind,
    MadeHow,
    Mixture,
    Role,
    Value,
)


def promote(operands: list[Value], path: str, node: ast.expr) -> Value:
    """The result of an operation that promotes its tensor operands; numbers and scalars widen nothing."""
    tensors = [item for item in operands if item.kind is Kind.TENSOR]
    if not tensors:
        return UNKNOWN_VALUE if any(item.kind is Kind.UNKNOWN for item in operands) else NUMBER_VALUE
    if any(item.kind in (Kind.UNKNOWN, Kind.BATCH) for item in operands):
        return _with_unknown(tensors)
    dimensioned = [item for item in tensors if not item.scalar] or tensors
    if all(atom.dtype in (INT64, BOOL) for item in dimensioned for atom in item.atoms):
        dimensioned = tensors  # a floating one without dimensions is of a higher category
    atoms = dimensioned[0].atoms
    for item in dimensioned[1:]:
        atoms = _promoted(atoms, item.atoms, path, node)
    return Value(Kind.TENSOR, atoms, scalar=all(item.scalar for item in tensors))


def _with_unknown(tensors: list[Value]) -> Value:
    """An operand of unknown dtype may widen anything but float32 stays at least float32."""
    wide = [atom for item in tensors if not item.scalar for atom in item.atoms if atom.dtype in (FP32, FP64)]
    every = any(item.atoms and all(atom in wide for atom in item.atoms) for item in tensors if not item.scalar)
    if every:
        return Value(Kind.TENSOR, tuple(wide[:1]))
    data = all(atom.role is Role.DATA for item in tensors for atom in item.atoms) and len(tensors) == 1
    return Value(Kind.TENSOR, tensors[0].atoms if data else ())


def _promoted(first: tuple[Atom, ...], second: tuple[Atom, ...], path: str, node: ast.expr) -> tuple[Atom, ...]:
    if not first or not second:
        known = first or second  # what is float32 stays at least float32
        return known[:1] if known and all(atom.dtype in (FP32, FP64) for atom in known) else ()
    found: list[Atom] = []
    for one, other in ((one, other) for one in first for other in second if not opposed(one.given, other.given)):
        atom = promoted_atom(one, other, path, node)
        if atom is None:
            return ()
        if atom not in found:
            found.append(replace(atom, given=one.given | other.given))
    return tuple(found) if len(found) <= MAX_ATOMS else ()


def promoted_atom(one: Atom, other: Atom, path: str, node: ast.expr) -> Atom | None:
    """What two atoms promote to; None when it cannot be told."""
    if one == other:
        first, second = (other, one) if one.made is MadeHow.LAYER else (one, other)
        return first if first.mixture is not None else second if second.mixture is not None else first
    if one.dtype is not None and other.dtype is not None:
        return _promoted_concrete(one, other, path, node)
    if one.dtype is None and other.dtype is None:
        return _promoted_symbols(one, other)
    known, symbol = (one, other) if one.dtype is not None else (other, one)
    if known.dtype not in FLOATING:
        return symbol
    if known.dtype == FP64:
        return known
    if known.dtype == FP32:
        mixed = known.mixture or (Mixture(path, node, symbol) if symbol.can_be_half else None)
        return replace(known, mixture=mixed)
    return symbol if symbol.role is not Role.PARAMETER else None


def _promoted_symbols(one: Atom, other: Atom) -> Atom | None:
    """What autocast computed takes the dtype of what it meets: that is float32, or the same 16-bit type."""
    for first, second in ((one, other), (other, one)):
        if first.role is Role.AUTOCAST:
            return second
    for atom in (one, other):
        if atom.role is Role.GRADIENT:
            return atom
    if {Role.RESULT, Role.QUANTIZED} & {one.role, other.role}:
        return None
    return one if one.role is not Role.DATA else other


def _promoted_concrete(one: Atom, other: Atom, path: str, node: ast.expr) -> Atom:
    order = (BOOL, INT64, FP16, BF16, FP32, FP64)
    ranks = [order.index(item.dtype) if item.dtype in order else 1 for item in (one, other)]
    wider, narrower = (one, other) if ranks[0] >= ranks[1] else (other, one)
    if {one.dtype, other.dtype} == {FP16, BF16}:
        return Atom(FP32, made=MadeHow.MIXED_HALVES, source=one.source, mixture=Mixture(path, node, other))
    if wider.dtype == FP32 and narrower.dtype in HALVES:
        return replace(wider, mixture=wider.mixture or Mixture(path, node, narrower))
    return wider


def of_weights_only(value: Value) -> Value:
    """The same value, where autocast, if it is open, does not give it the low precision."""
    return value.with_atoms(
        replace(atom, made=MadeHow.PLAIN) if atom.made is MadeHow.LAYER else atom for atom in value.atoms
    )
