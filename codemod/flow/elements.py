"""What one round of a loop brings: an element of a list, an item of a data loader, one of a container's modules."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import reduce

from ..python.names import last_name
from ..python.scopes import text_of
from .containers import one_of
from .lattice import BEGINNING, NUMBER_VALUE, UNKNOWN_VALUE, Kind, Role, Value, join

SAME_ELEMENTS = ("iter", "tqdm", "list", "tuple", "reversed", "trange", "cycle")
"""Functions that give the elements of their first argument."""
ITERATED = (Kind.SEQUENCE, Kind.MODULE, Kind.TENSOR)


def element_of(iterable: ast.expr, value: Value) -> Value:
    """One element of what ``iterable`` gives, whose value is ``value``."""
    called = last_name(iterable.func) if isinstance(iterable, ast.Call) and iterable.args else ""
    if isinstance(iterable, ast.Call) and called in SAME_ELEMENTS and value.kind is Kind.UNKNOWN:
        return element_of(iterable.args[0], value)
    if called == "range":
        return NUMBER_VALUE
    if value.kind is Kind.UNKNOWN:
        text = text_of(iterable)[:80].lower()
        return Value(Kind.BATCH, label=text) if "loader" in text or "dataset" in text else UNKNOWN_VALUE
    if value.kind is Kind.TENSOR:
        return value
    if value.kind is Kind.MODULE and not value.keys:
        return one_of(value)
    return any_item(value) if value.kind is Kind.SEQUENCE else UNKNOWN_VALUE


def any_item(value: Value) -> Value:
    """Any one of the elements of a sequence."""
    return reduce(join, value.items) if value.items and value.label != BEGINNING else UNKNOWN_VALUE


def at_index(base: Value, index: ast.expr) -> Value:
    if base.items is None:
        return UNKNOWN_VALUE
    if base.label == "each":
        return base if isinstance(index, ast.Slice) else base.items[0]
    if isinstance(index, ast.Slice):
        return _from(base, index)
    if isinstance(index, ast.UnaryOp) and isinstance(index.op, ast.USub) and isinstance(index.operand, ast.Constant):
        index = ast.Constant(-index.operand.value) if isinstance(index.operand.value, int) else index
    if isinstance(index, ast.Constant) and isinstance(index.value, int):
        first = 0 if base.label == BEGINNING else -len(base.items)
        return base.items[index.value] if first <= index.value < len(base.items) else UNKNOWN_VALUE
    if base.label == BEGINNING:
        return UNKNOWN_VALUE
    same = set(base.items)
    return same.pop() if len(same) == 1 else UNKNOWN_VALUE


def _from(base: Value, index: ast.Slice) -> Value:
    """``outputs[1:]``; other slices hold some of the items."""
    start = index.lower.value if isinstance(index.lower, ast.Constant) else None
    if index.upper is not None or index.step is not None or not isinstance(start, int) or start < 0:
        return Value(Kind.SEQUENCE)
    return replace(base, items=(base.items or ())[start:])


def concatenated(node: ast.BinOp, left: Value, right: Value) -> Value:
    """``[x] * 2``, ``[a] + [b]``; ``(x, *others)`` where nobody knows how many follow."""
    known = left if left.kind is Kind.SEQUENCE else right
    if not isinstance(node.op, ast.Add):
        return known if isinstance(node.op, ast.Mult) else Value(Kind.SEQUENCE)
    if left.kind is Kind.SEQUENCE and left.items and not left.label:
        complete = right.kind is Kind.SEQUENCE and right.items is not None and not right.label
        return Value(Kind.SEQUENCE, items=left.items + (right.items or ()), label="" if complete else BEGINNING)
    both = left.items is not None and right.items is not None and BEGINNING not in (left.label, right.label)
    return Value(Kind.SEQUENCE, items=(left.items or ()) + (right.items or ()) if both else None)


def unpacked_at(value: Value, target: ast.Tuple | ast.List, index: int) -> Value | None:
    """What ``a, b = value`` gives one of the names."""
    items = value.items
    if items is None:
        return None
    begins = value.label == BEGINNING and not any(isinstance(item, ast.Starred) for item in target.elts)
    return items[index] if index < len(items) and (begins or len(items) == len(target.elts)) else None


def elements_of_call(node: ast.Call, name: str, positional: list[tuple[ast.expr, Value]]) -> Value | None:
    """``list(x)``, ``iter(x)``, ``tqdm(x)``: what they go through; ``next(iter(loader))``: one element of it."""
    if not positional:
        return None
    item, value = positional[0]
    if name == "next":
        return element_of(item, value)
    if name in SAME_ELEMENTS and value.kind is Kind.SEQUENCE:
        return value
    known = [each for _, each in positional]
    if name == "zip" and not node.keywords and any(each.kind in ITERATED for each in known):
        return each_of(Value(Kind.SEQUENCE, items=tuple(element_of(item, each) for item, each in positional)))
    if name == "enumerate":
        return each_of(Value(Kind.SEQUENCE, items=(NUMBER_VALUE, element_of(item, value))))
    return None


def each_of(element: Value) -> Value:
    """A sequence all of whose elements are like ``element``."""
    return Value(Kind.SEQUENCE, items=(element,), label="each")


def holds_data(value: Value) -> bool:
    """Whether a value is a batch, or has items of one."""
    found = value.kind is Kind.BATCH or any(atom.role is Role.DATA for atom in value.atoms)
    return found or any(holds_data(item) for item in value.items or ())


def sampled(element: Value) -> Value:
    """What collating puts together: a batch of such elements. A sample without dimensions gets one."""
    if element.kind is Kind.TENSOR:
        return replace(element, scalar=False)
    if element.kind in (Kind.SEQUENCE, Kind.RECORD) and element.items is not None:
        return replace(element, items=tuple(sampled(item) for item in element.items), detail=None)
    return UNKNOWN_VALUE
