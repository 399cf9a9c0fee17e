"""Joins, promotion and clashes of the abstract values; promotion is compared with the installed torch."""

from __future__ import annotations

import ast
from itertools import product

import pytest
import torch
from precfix.codemod.flow.attributes import named_by
from precfix.codemod.flow.lattice import (
    BEGINNING,
    BOOL,
    INT64,
    MAX_ATOMS,
    NUMBER_VALUE,
    UNKNOWN_VALUE,
    Atom,
    Kind,
    MadeHow,
    Role,
    Value,
    clash,
    join,
)
from precfix.codemod.flow.promotion import promote
from precfix.codemod.torch.dtypes import BF16, FP16, FP32, FP64, HALVES, Dtype

UNKNOWN_TENSOR = Value(Kind.TENSOR)
NODE = ast.Name("x", ast.Load())
DTYPES = (BOOL, INT64, FP16, BF16, FP32, FP64)
WEIGHTS = Atom(symbol="weights of m.py:Net", role=Role.WEIGHTS)
WIDE_WEIGHTS = Atom(symbol="weights of m.py:Net", role=Role.WEIGHTS, can_be_half=False)
STATED = Atom(symbol="weight_dtype", role=Role.EXPRESSION)
GIVEN = Atom(symbol="parameter x of f:1", role=Role.PARAMETER)
DATA = Atom(symbol="batch:batch['x']", role=Role.DATA)


def tensor(*atoms: Atom | Dtype, scalar: bool = False) -> Value:
    found = tuple(atom if isinstance(atom, Atom) else Atom(atom) for atom in atoms)
    return Value(Kind.TENSOR, found, scalar=scalar)


def dtypes(value: Value) -> set[Dtype | None]:
    return {atom.dtype for atom in value.atoms}


def in_torch(dtype: Dtype) -> torch.dtype:
    found = getattr(torch, dtype.name)
    assert isinstance(found, torch.dtype)
    return found


@pytest.mark.parametrize(("one", "other"), list(product(DTYPES, DTYPES)))
def test_promotion_is_that_of_torch(one: Dtype, other: Dtype) -> None:
    result = promote([tensor(one), tensor(other)], "a.py", NODE)
    expected = torch.promote_types(in_torch(one), in_torch(other))
    assert dtypes(result) == {Dtype(str(expected).removeprefix("torch."))}


@pytest.mark.parametrize(("one", "other"), list(product(HALVES, (FP32, FP64))))
def test_a_scalar_does_not_widen(one: Dtype, other: Dtype) -> None:
    assert dtypes(promote([tensor(one), tensor(other, scalar=True)], "a.py", NODE)) == {one}
    in_use = torch.ones(2, dtype=in_torch(one)) * torch.ones((), dtype=in_torch(other))
    assert in_use.dtype == in_torch(one)


def test_two_scalars_promote_each_other() -> None:
    result = promote([tensor(BF16, scalar=True), tensor(FP32, scalar=True)], "a.py", NODE)
    assert dtypes(result) == {FP32}
    assert result.scalar


def test_numbers_do_not_count() -> None:
    assert promote([tensor(BF16), NUMBER_VALUE], "a.py", NODE).atoms == tensor(BF16).atoms
    assert promote([NUMBER_VALUE, NUMBER_VALUE], "a.py", NODE) == NUMBER_VALUE


def test_what_is_unknown_stays_unknown() -> None:
    assert promote([tensor(BF16), UNKNOWN_VALUE], "a.py", NODE).atoms == ()
    assert promote([tensor(STATED), UNKNOWN_TENSOR], "a.py", NODE).atoms == ()
    assert promote([NUMBER_VALUE, UNKNOWN_VALUE], "a.py", NODE).kind is Kind.UNKNOWN


@pytest.mark.parametrize("other", [UNKNOWN_VALUE, UNKNOWN_TENSOR])
def test_float32_stays_at_least_float32(other: Value) -> None:
    assert dtypes(promote([tensor(FP32), other], "a.py", NODE)) == {FP32}
    assert dtypes(promote([tensor(FP32, scalar=True), other], "a.py", NODE)) in ({FP32}, set())


def test_a_widened_symbol_remembers_what_was_meant() -> None:
    (atom,) = promote([tensor(STATED), tensor(FP32)], "a.py", NODE).atoms
    assert atom.dtype == FP32
    assert atom.mixture is not None
    assert atom.mixture.meant == STATED
    (plain,) = promote([tensor(WIDE_WEIGHTS), tensor(FP32)], "a.py", NODE).atoms
    assert plain.mixture is None


def test_a_parameter_and_a_16_bit_tensor_promote_to_something_unknown() -> None:
    assert promote([tensor(GIVEN), tensor(BF16)], "a.py", NODE).atoms == ()
    assert promote([tensor(GIVEN), tensor(INT64)], "a.py", NODE).atoms == (GIVEN,)


def test_join_keeps_both_ways() -> None:
    assert dtypes(join(tensor(BF16), tensor(FP32))) == {BF16, FP32}
    assert join(tensor(BF16), UNKNOWN_TENSOR).atoms == ()
    assert join(tensor(BF16), UNKNOWN_VALUE).kind is not Kind.NUMBER
    assert not join(tensor(BF16), tensor(BF16, scalar=True)).scalar


def test_join_with_a_number_keeps_the_tensor() -> None:
    assert join(NUMBER_VALUE, tensor(BF16)).atoms == tensor(BF16).atoms


def test_join_of_sequences() -> None:
    one = Value(Kind.SEQUENCE, items=(tensor(BF16), NUMBER_VALUE))
    other = Value(Kind.SEQUENCE, items=(tensor(FP32), NUMBER_VALUE))
    assert (join(one, other).items or ())[0].atoms == tensor(BF16, FP32).atoms
    longer = join(one, Value(Kind.SEQUENCE, items=(tensor(BF16),)))
    assert (longer.items, longer.label) == ((tensor(BF16),), BEGINNING)
    every = Value(Kind.SEQUENCE, items=(tensor(BF16),), label="each")
    assert join(one, every).items is None


def test_too_many_ways_are_unknown() -> None:
    value = tensor(Atom(symbol="0", role=Role.EXPRESSION))
    for index in range(1, MAX_ATOMS + 1):
        value = join(value, tensor(Atom(symbol=str(index), role=Role.EXPRESSION)))
    assert value.atoms == ()


FOLLOWED = Atom(symbol="x.dtype", role=Role.EXPRESSION, made=MadeHow.FOLLOWED)


@pytest.mark.parametrize(
    ("odd", "meant"),
    [(Atom(FP32), meant) for meant in (Atom(BF16), Atom(FP16), STATED, WEIGHTS, GIVEN, FOLLOWED)] + [(DATA, STATED)],
)
def test_what_clashes(odd: Atom, meant: Atom) -> None:
    assert clash(odd, meant) == (odd, meant)
    assert clash(meant, odd) == (odd, meant)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Atom(FP32), Atom(FP32)),
        (Atom(FP32), WIDE_WEIGHTS),
        (Atom(FP32), DATA),
        (Atom(INT64), STATED),
        (Atom(BOOL), Atom(BF16)),
        (DATA, FOLLOWED),
        (DATA, WEIGHTS),
        (STATED, WEIGHTS),
        (GIVEN, WEIGHTS),
        (STATED, STATED),
    ],
)
def test_what_does_not_clash(one: Atom, other: Atom) -> None:
    assert clash(one, other) is None
    assert clash(other, one) is None


def test_named_dtypes() -> None:
    chosen = Atom(symbol="d", role=Role.EXPRESSION, candidates=frozenset({BF16, FP16}))
    assert named_by([chosen, Atom(FP32)]) == {BF16, FP16, FP32}
