"""The abstract values of the dtype flow: what is known of a tensor's dtype, how two of them join and clash.

A tensor has a set of *atoms*, one for each way it can have got its dtype. An atom is a concrete dtype or a symbol:
"the dtype of parameter x", "whatever ``weight_dtype`` says", "the dtype of this class's weights". No atoms: unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from ..torch.dtypes import BF16, FP16, FP32, FP64, HALVES, Dtype
from .members import plainly

if TYPE_CHECKING:
    from .recast_parts import Recast

BOOL, INT64, FLOATING = Dtype("bool"), Dtype("int64"), (BF16, FP16, FP32, FP64)
OF_PART = "part at "
"""How the symbols of parts begin that were cast to float32 after their model."""
FIRST = "[0]"
"""The key of what ``output[0]`` gives, where it is not simply the first field."""
BEGINNING = "beginning"
"""The label of a sequence of which only the first items are known, not how many follow."""
BY_NAME = "by name"
"""The label of a function that a library hands out for a name: what is used in place of it is alike."""
MAX_ATOMS = 6
"""A value with more ways than this counts as unknown."""


@plainly
class Kind(Enum):
    """What sort of thing an expression is."""

    UNKNOWN = "unknown"
    TENSOR = "tensor"
    DTYPE = "dtype"
    MODULE = "module"
    NUMBER = "number"
    """A Python number, string, shape, None: nothing that takes part in promotion."""
    ARRAY = "array"
    SEQUENCE = "sequence"
    RECORD = "record"
    """A dictionary, or what a library's model returns: some of its keys (or attributes) are known."""
    SAVED = "saved"
    """One of several sequences: what ``ctx.save_for_backward`` was given in several places."""
    BATCH = "batch"
    """What a data loader yields, or a parameter called ``batch``: its floating items are float32 unless cast."""


@plainly
class MadeHow(Enum):
    """How a tensor came by its dtype."""

    PLAIN = "plain"
    """As it came, with nothing to tell."""
    FACTORY = "factory"
    """By a factory that no dtype was given: the default one."""
    CAST = "cast"
    """By a cast, or a dtype that was asked for."""
    TABLE = "table"
    """As a table that a library keeps in float32."""
    AUTOCAST = "autocast"
    """By autocast's own policy."""
    MODULE = "module"
    """As the weights of a module that was made or loaded in the default dtype."""
    OUTPUT = "output"
    """As what such a module gives."""
    MIXED_HALVES = "mixed-halves"
    """By promotion of float16 with bfloat16."""
    FOLLOWED = "followed"
    """For symbols: it is the dtype of another value of which nothing is known."""
    LAYER = "layer"
    """For symbols: by a layer that autocast lowers."""
    FLOAT = "float"
    """For results of models: by an operation that gives floating tensors only."""
    GRADIENT = "gradient"
    """As the gradient of an output, whose dtype it has."""


@plainly
class Role(Enum):
    """What a symbol stands for."""

    EXPRESSION = "expression"
    """A dtype-valued expression of the project: ``weight_dtype``, ``args.dtype``."""
    PARAMETER = "parameter"
    """The dtype of a tensor that a function is given."""
    WEIGHTS = "weights"
    """The dtype of a module's weights."""
    DATA = "data"
    """The dtype of an item of a batch, or of what a data pipeline made."""
    OUTPUT = "output"
    """The dtype of what a model returns that the project hands to ``accelerator.prepare``: float32 from then on."""
    AUTOCAST = "autocast"
    """What an autocast region computes in."""
    RESULT = "result"
    """The dtype of what a model gave in an open region: 16-bit, unless the model ends in a float32 operation."""
    GRADIENT = "gradient"
    """What a backward pass computed from the gradient it was given, in ways that are not known."""
    QUANTIZED = "quantized"
    """What a quantization remembers as the dtype of the weight it packed."""


@dataclass(slots=True, eq=False)  # like values
class DtypeSource:
    """One step of the chain that tells where a dtype came from: the newest first."""

    path: str
    node: ast.AST
    text: str
    before: DtypeSource | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A promotion that met a float32 operand where the other one has the dtype that was meant."""

    path: str
    """The file that ``node`` stands in, which need not be the one where the result is used."""
    node: ast.expr
    meant: Atom


@dataclass(slots=True, unsafe_hash=True)  # like values
class Atom:
    """One way a tensor can have got its dtype; atoms are equal when they mean the same dtype."""

    dtype: Dtype | None = None
    symbol: str = ""
    role: Role | None = None
    can_be_half: bool = True
    """For symbols: whether the project lets it be a 16-bit type."""
    source: DtypeSource | None = field(default=None, compare=False)
    mixture: Mixture | None = field(default=None, compare=False)
    made: MadeHow = field(default=MadeHow.PLAIN, compare=False)
    expression: ast.expr | None = field(default=None, compare=False)
    """For symbols of role EXPRESSION: the expression, to be said again in a fix."""
    candidates: frozenset[Dtype] = field(default=frozenset(), compare=False)
    """For symbols: the dtypes that the source names for it; there may be others."""
    guessed: bool = field(default=False, compare=False)
    """Whether a model of a class that no table has gave it, which may return another dtype than its weights have."""
    given: frozenset[tuple[str, bool]] = field(default=frozenset(), compare=False)
    """What holds in the runs in which it is so, as far as branches tell that ask for settings."""

    @property
    def is_floating(self) -> bool:
        """Whether it is a floating type for certain."""
        certain = self.role in (Role.WEIGHTS, Role.AUTOCAST, Role.EXPRESSION) or self.made is MadeHow.FLOAT
        return self.dtype in FLOATING or certain

    @property
    def is_float32(self) -> bool:
        """Whether it is float32 for certain; weights are, where nothing in the project makes them 16-bit."""
        return self.dtype == FP32 or (self.role is Role.WEIGHTS and not self.can_be_half)

    @property
    def is_of_gradient(self) -> bool:
        """Whether it comes from the gradient that a backward pass is given."""
        return self.made is MadeHow.GRADIENT or self.role is Role.GRADIENT

    @property
    def is_of_part(self) -> bool:
        """Whether it comes from a part of a model that was cast to float32 after the whole (`recasts`)."""
        return self.symbol.startswith(OF_PART)

    @property
    def is_half(self) -> bool:
        """Whether it is, or can be, a 16-bit floating type."""
        return self.dtype in HALVES if self.dtype is not None else self.can_be_half

    def seen_at(self, path: str, node: ast.AST, text: str) -> Atom:
        """The same atom with one more step of evidence."""
        return replace(self, source=DtypeSource(path, node, text, self.source))


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The modules (or, before they are made, the classes) of which some expression is one."""

    values: tuple[Value, ...]


@dataclass(slots=True, unsafe_hash=True)  # never changed; frozen, it takes six times as long to make
class Value:
    """What is known of one expression."""

    kind: Kind = Kind.UNKNOWN
    atoms: tuple[Atom, ...] = ()
    items: tuple[Value, ...] | None = None
    """For sequences whose elements are known one by one, and what ``keys`` hold."""
    scalar: bool = False
    """A zero-dimensional tensor, which does not widen others."""
    label: str = ""
    """For modules and batches: what they are called in the source, and how module outputs are named.

    For unknown values: the symbol of the parameter that it is, untouched.
    """
    detail: object = None
    """For modules: what `modules.ModuleFact` knows."""
    recast: tuple[Recast, ...] = ()
    """For modules: the parts that are float32 although the rest is 16-bit."""
    keys: tuple[str, ...] = ()
    """For records, and objects with fields: what they are known to hold. Others are not known."""

    @property
    def only(self) -> Atom | None:
        """The one way in which the tensor can have got its dtype."""
        return self.atoms[0] if self.kind is Kind.TENSOR and len(self.atoms) == 1 else None

    @property
    def is_of_gradient(self) -> bool:
        return self.kind is Kind.TENSOR and any(atom.is_of_gradient for atom in self.atoms)

    def with_atoms(self, atoms: Iterable[Atom]) -> Value:
        return Value(self.kind, tuple(atoms), self.items, self.scalar, self.label, self.detail, self.recast, self.keys)

    def fields(self) -> dict[str, Value]:
        """What a record's keys hold, or an object's fields."""
        return dict(zip(self.keys, self.items or (), strict=True)) if self.keys else {}

    def with_fields(self, fields: Mapping[str, Value]) -> Value:
        keys, items = tuple(fields), tuple(fields.values())
        return Value(self.kind, self.atoms, items, self.scalar, self.label, self.detail, self.recast, keys)


UNKNOWN_VALUE = Value()
NUMBER_VALUE = Value(Kind.NUMBER)
NONE_VALUE = Value(Kind.NUMBER, label="None")
ARRAY_VALUE = Value(Kind.ARRAY)
BOOL_TENSOR = Value(Kind.TENSOR, (Atom(BOOL),))
INT_TENSOR = Value(Kind.TENSOR, (Atom(INT64),))


def join(first: Value, second: Value) -> Value:
    """What is known after two paths meet."""
    if first == second:
        return first
    if first.kind is not second.kind:
        for one, other in ((first, second), (second, first)):
            if one.keys and other.kind is Kind.SEQUENCE:
                return _object_or_tuple(one, other)
        present = [item for item in (first, second) if item.kind is not Kind.NUMBER]
        named = [item for item in (first, second) if item.label == BY_NAME]
        if len(named) == 1 and UNKNOWN_VALUE in (first, second):
            return named[0]
        return present[0] if len(present) == 1 and present[0].kind in (Kind.TENSOR, Kind.MODULE) else UNKNOWN_VALUE
    if first.keys or second.keys:
        return _joined_fields(first, second)
    if first.kind is Kind.MODULE:
        detail = first.detail if first.detail == second.detail else _alternatives(first, second)
        label = first.label if first.label == second.label else ""
        atoms = _union(first.atoms, second.atoms) or first.atoms or second.atoms
        recast = tuple(dict.fromkeys((*first.recast, *second.recast)))
        return Value(Kind.MODULE, atoms, _parts(first.items, second.items), label=label, detail=detail, recast=recast)
    items = _parts(first.items, second.items)
    if items is None and first.items and second.items:
        if len(first.items) != len(second.items) or BEGINNING in (first.label, second.label):
            return _beginning(first, second)
        items = tuple(join(one, other) for one, other in zip(first.items, second.items, strict=True))
    detail = first.detail
    if first.kind is Kind.UNKNOWN and first.detail != second.detail:
        detail = _alternatives(first, second) if first.detail is not None and second.detail is not None else None
    labels = {value.label for value in (first, second) if value.items != ()}
    return Value(
        first.kind,
        _union(first.atoms, second.atoms),
        items,
        first.scalar and second.scalar,
        labels.pop() if len(labels) == 1 else "",
        detail,
    )


def _alternatives(first: Value, second: Value) -> Alternatives | None:
    """Each of the things that two values can be, once; None where they are too many, or one is not known."""
    found: list[Value] = []
    for value in (first, second):
        each = value.detail.values if isinstance(value.detail, Alternatives) else (value,)
        found += [item for item in each if item not in found]
    known = len(found) <= MAX_ATOMS and all(item.detail is not None for item in found)
    return Alternatives(tuple(found)) if known else None


def _joined_fields(first: Value, second: Value) -> Value:
    """What both records are known to hold."""
    if first.detail != second.detail:
        return UNKNOWN_VALUE
    others = second.fields()
    return first.with_fields({key: join(value, others[key]) for key, value in first.fields().items() if key in others})


def _object_or_tuple(record: Value, listed: Value) -> Value:
    """``if not return_dict: return (sample,)``: attributes are those of the object; the first item may be either's."""
    fields = {key: value for key, value in record.fields().items() if key != FIRST}
    if listed.items and listed.label != "each" and record.items:
        return record.with_fields({**fields, FIRST: join(record.fields().get(FIRST, record.items[0]), listed.items[0])})
    return record.with_fields({**fields, FIRST: UNKNOWN_VALUE})


def _beginning(first: Value, second: Value) -> Value:
    """What two sequences of different lengths begin with."""
    if first.kind is not Kind.SEQUENCE or not {first.label, second.label} <= {"", BEGINNING}:
        return Value(first.kind)
    shared = zip(first.items or (), second.items or (), strict=False)
    return Value(Kind.SEQUENCE, items=tuple(join(one, other) for one, other in shared), label=BEGINNING)


def _parts(first: tuple[Value, ...] | None, second: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    """What a container holds after two paths meet: an empty one (a loop before its first round) adds nothing."""
    return first if first == second or second == () else second if first == () else None


def _union(first: tuple[Atom, ...], second: tuple[Atom, ...]) -> tuple[Atom, ...]:
    if not first or not second:
        return ()
    others = {atom: atom.given for atom in second}
    shared = (replace(atom, given=atom.given & others[atom]) if atom in others else atom for atom in first)
    found = (*shared, *(atom for atom in second if atom not in first))
    return found if len(found) <= MAX_ATOMS else ()


def as_floating(value: Value) -> Value:
    """The same value, after an operation that gives floating tensors only."""
    return value.with_atoms(
        replace(atom, made=MadeHow.FLOAT) if atom.role is Role.RESULT else atom for atom in value.atoms
    )


def clash(one: Atom, other: Atom) -> tuple[Atom, Atom] | None:
    """(the odd, too wide atom; the one that was meant) when two atoms differ as soon as a 16-bit type is in use."""
    if one == other:
        return None
    for wide, meant in ((one, other), (other, one)):
        if meant.role is Role.DATA:
            continue  # float32 as well, unless something says otherwise
        if wide.dtype in (FP32, FP64) and meant.is_half and meant.dtype not in (FP32, FP64):
            return wide, meant
    if one.dtype is None and other.dtype is None:
        for data, fixed in ((one, other), (other, one)):
            stated = fixed.role is Role.EXPRESSION and fixed.can_be_half and fixed.made is not MadeHow.FOLLOWED
            if data.role is Role.DATA and stated:
                return data, fixed
        return None
    if {one.dtype, other.dtype} == {BF16, FP16}:
        return one, other
    return None
