"""Evaluates expressions: what kind of thing each is, and which dtype a tensor has."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import partial, reduce

from ..source.child_fields import within
from ..source.slim_nodes import of_both
from .attributes import attribute_of
from .calls import call, of_gradient
from .classes import ids_by_name, model_by_name
from .containers import chosen_of, holds_by_name
from .data import sample_of
from .decided import decided, is_cast_where_asked
from .dtype_expressions import dtype_atoms, written_dtype
from .elements import at_index, concatenated, each_of, element_of
from .frame import Autocasting, Frame, asks_for_precision, joined_names, place_of
from .lattice import (
    BOOL_TENSOR,
    INT64,
    NUMBER_VALUE,
    UNKNOWN_VALUE,
    Atom,
    Kind,
    MadeHow,
    Role,
    Value,
    as_floating,
    join,
)  # fmt: skip
from .operation_calls import apply_operation, promoted_operands
from .records import item_of, mapped, record_of
from .registries import class_value, handed_out

MAX_ITEMS = 16
"""Longer displays are taken as one thing of unknown parts."""
MAX_DEPTH = 60
"""Deeper nested expressions count as unknown."""


def evaluate(frame: Frame, node: ast.expr, depth: int = 0) -> Value:
    """What is known of ``node``; operands are evaluated once, in order, and meetings are recorded on the way."""
    if depth > MAX_DEPTH:
        return UNKNOWN_VALUE
    handler = _HANDLERS.get(type(node), _other)
    value = handler(frame, node, depth + 1)
    if frame.record.observed:
        frame.record.values[node] = value
    return value


def _constant(frame: Frame, node: ast.expr, depth: int) -> Value:
    return NUMBER_VALUE


def _name(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Name)
    known = frame.names.get(node.id)
    if known is not None:
        named = _by_name(frame, node, node.id) if known.kind is Kind.UNKNOWN else known
        return named if named.kind is not Kind.UNKNOWN else known
    return _global(frame, node)


def _by_name(frame: Frame, node: ast.expr, name: str) -> Value:
    """What only its name tells: a model of a library, token ids."""
    ids = ids_by_name(frame.module.document.path, node, name)
    return ids if ids.kind is not Kind.UNKNOWN else model_by_name(node)


def _global(frame: Frame, node: ast.Name | ast.Attribute) -> Value:
    dtype = written_dtype(frame, node)
    if dtype is not None:
        source = frame.source(node, f"{ast.unparse(node)} is given")
        return Value(Kind.DTYPE, (Atom(dtype, source=source, made=MadeHow.CAST),))
    chosen = class_value(frame, node) if isinstance(node, ast.Name) else UNKNOWN_VALUE
    return chosen if chosen.detail is not None else model_by_name(node)


def _attribute(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Attribute)
    place = place_of(node)
    known = frame.names.get(place) if place is not None else None
    if known is not None:
        return known
    dtype = written_dtype(frame, node) if isinstance(node.value, ast.Name) else None
    if dtype is not None:
        return _global(frame, node)
    value = attribute_of(frame, node, evaluate(frame, node.value, depth))
    return value if value.kind is not Kind.UNKNOWN else ids_by_name(frame.module.document.path, node, node.attr)


def _subscript(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Subscript)
    place = place_of(node)
    known = frame.names.get(place) if place is not None else None
    if known is not None:
        return known
    base = evaluate(frame, node.value, depth)
    evaluate(frame, node.slice, depth)
    if base.kind is Kind.UNKNOWN and isinstance(node.value, ast.Name | ast.Attribute):
        base = handed_out(frame, node)
        if base.detail is not None:
            return base
    if base.kind in (Kind.BATCH, Kind.UNKNOWN) and isinstance(node.slice, ast.Constant):
        ids = ids_by_name(frame.module.document.path, node, str(node.slice.value))
        base = ids if ids.kind is not Kind.UNKNOWN else base
    if (base.keys and not holds_by_name(base)) or base.kind is Kind.RECORD:
        return item_of(base, node.slice)
    if base.kind is Kind.BATCH:
        return _batch_item(frame, node, base)
    if base.kind is Kind.SEQUENCE:
        return at_index(base, node.slice)
    if base.kind is Kind.MODULE:
        sample = sample_of(frame, base)
        if sample.kind is not Kind.UNKNOWN:
            return sample
        return chosen_of(base, node.slice)
    if base.kind is Kind.TENSOR:
        of_table = any(atom.made is MadeHow.TABLE for atom in base.atoms) and not isinstance(node.slice, ast.Slice)
        return replace(base, scalar=True) if of_table else base
    return UNKNOWN_VALUE


def _batch_item(frame: Frame, node: ast.Subscript, base: Value) -> Value:
    text = ast.unparse(node)
    source = frame.source(node, f"{text} comes from the data pipeline")
    atom = Atom(symbol=f"{base.label}:{text}", role=Role.DATA, source=source, expression=node)
    return Value(Kind.TENSOR, (atom,), label=text)


def _binary(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.BinOp)
    left, right = evaluate(frame, node.left, depth), evaluate(frame, node.right, depth)
    operands, power = [(node.left, left), (node.right, right)], isinstance(node.op, ast.Pow)
    if isinstance(node.op, ast.MatMult):
        return of_gradient(apply_operation(frame, node, "matmul", operands), [left, right])
    if Kind.SEQUENCE in (left.kind, right.kind):
        return concatenated(node, left, right)
    if Kind.TENSOR not in (left.kind, right.kind):
        plain = left.kind is right.kind is Kind.NUMBER
        return NUMBER_VALUE if plain else UNKNOWN_VALUE
    result = apply_operation(frame, node, "pow", operands) if power else promoted_operands(frame, operands, node)
    return of_gradient(_true_division(node, result), [left, right])


def _true_division(node: ast.BinOp, result: Value) -> Value:
    """Integers divide, and meet Python floats, in the default dtype: which dtype is not told."""
    integral = any(atom.dtype == INT64 for atom in result.atoms)
    floats = any(isinstance(item, ast.Constant) and isinstance(item.value, float) for item in (node.left, node.right))
    if not floats and not isinstance(node.op, ast.Div | ast.Pow):
        return result
    return result.with_atoms(()) if integral else as_floating(result)


def _unary(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.UnaryOp)
    value = evaluate(frame, node.operand, depth)
    return value if not isinstance(node.op, ast.Not) else NUMBER_VALUE


def _compare(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Compare)
    values = [evaluate(frame, item, depth) for item in (node.left, *node.comparators)]
    plain = any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in node.ops)
    if not plain and any(item.kind is Kind.TENSOR for item in values):
        return BOOL_TENSOR
    return NUMBER_VALUE if plain or all(item.kind is Kind.NUMBER for item in values) else UNKNOWN_VALUE


def _conditional(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.IfExp)
    evaluate(frame, node.test, depth)
    outcome = decided(frame, node.test, partial(evaluate, frame))
    if outcome is not None:
        return evaluate(frame, node.body if outcome else node.orelse, depth)
    before = dict(frame.names)
    first, names = evaluate(frame, node.body, depth), frame.names
    frame.names = before
    second = evaluate(frame, node.orelse, depth)
    frame.names = joined_names([names, frame.names])
    if Kind.DTYPE in (first.kind, second.kind):
        return Value(Kind.DTYPE, dtype_atoms(frame, node))
    joined = join(first, second)
    differ = first != second and joined.kind is Kind.TENSOR
    chosen = differ and (is_cast_where_asked(node) or frame.project.memo(asks_for_precision, node.test))
    return joined.with_atoms(()) if chosen else joined


def _boolean(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.BoolOp)
    values = [evaluate(frame, item, depth) for item in node.values]
    if any(value.kind is Kind.DTYPE for value in values):
        return Value(Kind.DTYPE, dtype_atoms(frame, node))
    return reduce(join, values) if isinstance(node.op, ast.Or) else UNKNOWN_VALUE


def _dictionary(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Dict)
    return record_of(node.keys, [evaluate(frame, item, depth) for item in node.values])


def _sequence(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Tuple | ast.List)
    values = tuple(evaluate(frame, item, depth) for item in node.elts)
    starred = any(isinstance(item, ast.Starred) for item in node.elts)
    return Value(Kind.SEQUENCE, items=None if starred or len(values) > MAX_ITEMS else values)


def _call(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Call)
    if frame.record.observed and frame.autocast.state is Autocasting.ON:
        frame.record.states[node] = frame.autocast
    receiver = None
    if isinstance(node.func, ast.Attribute):
        receiver = evaluate(frame, node.func.value, depth)
    elif not isinstance(node.func, ast.Name):
        receiver = evaluate(frame, node.func, depth)
    positional = [(item, evaluate(frame, item, depth)) for item in node.args]
    named = [(item.arg or "**", item.value, evaluate(frame, item.value, depth)) for item in node.keywords]
    unpacked = [(item, value) for name, item, value in named if name == "**"]
    named += [(key, item, held) for item, value in unpacked for key, held in value.fields().items()]
    return call(frame, node, receiver, positional, named)


def _named(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.NamedExpr)
    value = evaluate(frame, node.value, depth)
    frame.put(node.target.id, value)
    return value


def _starred(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Starred)
    given = evaluate(frame, node.value, depth)
    return Value(items=given.items) if given.kind is Kind.SEQUENCE else UNKNOWN_VALUE


def _comprehension(frame: Frame, node: ast.expr, depth: int) -> Value:
    """``[f(x) for x in xs]``: the element, where ``xs`` is a tensor, a batch or an unknown thing."""
    assert isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp)
    saved = dict(frame.names)
    for generator in node.generators:
        source = evaluate(frame, generator.iter, depth)
        bind_loop_target(frame, generator.target, generator.iter, source)
        for test in generator.ifs:
            evaluate(frame, test, depth)
    element = evaluate(frame, node.elt, depth)
    frame.names = saved
    known = element.kind in (Kind.TENSOR, Kind.MODULE)
    return each_of(element) if known else Value(Kind.SEQUENCE)


def _mapping(frame: Frame, node: ast.expr, depth: int) -> Value:
    """``{k: v.to(device) for k, v in batch.items()}``: each key holds what became of it; others are not known."""
    assert isinstance(node, ast.DictComp)
    source = mapped(node)
    base = evaluate(frame, source, depth) if source is not None else UNKNOWN_VALUE
    if base.kind not in (Kind.RECORD, Kind.BATCH):
        return UNKNOWN_VALUE
    saved, held = dict(frame.names), _target_names(node.generators[0].target)[-1].id
    fields = base.fields() if base.kind is Kind.RECORD else {"": _any_of_batch(frame, node, base)}
    results: dict[str, Value] = {}
    for name, value in fields.items():
        frame.put(held, value)
        results[name] = evaluate(frame, node.value, depth)
    frame.names = saved
    if base.kind is Kind.BATCH:
        return base if results == fields else UNKNOWN_VALUE
    return replace(base, detail=None, label="").with_fields(results)


def _any_of_batch(frame: Frame, node: ast.expr, base: Value) -> Value:
    source = frame.source(node, f"{base.label} comes from the data pipeline")
    return Value(Kind.TENSOR, (Atom(symbol=f"{base.label}:any", role=Role.DATA, source=source, expression=node),))


def _yielded(frame: Frame, node: ast.expr, depth: int) -> Value:
    assert isinstance(node, ast.Yield | ast.YieldFrom)
    value = evaluate(frame, node.value, depth) if node.value is not None else NUMBER_VALUE
    frame.yielded.append(element_of(node.value, value) if isinstance(node, ast.YieldFrom) else value)
    return UNKNOWN_VALUE


def bind_loop_target(frame: Frame, target: ast.expr, iterable: ast.expr, value: Value) -> None:
    """Give the names of a loop what one round brings."""
    for name in _target_names(target):
        frame.put(name.id, UNKNOWN_VALUE)
    _bind_element(frame, target, element_of(iterable, value))


def _bind_element(frame: Frame, target: ast.expr, element: Value) -> None:
    if isinstance(target, ast.Name):
        frame.put(target.id, element)
    elif isinstance(target, ast.Tuple | ast.List) and element.kind is Kind.SEQUENCE:
        items = element.items or ()
        if len(items) == len(target.elts) and element.label != "each":
            for part, item in zip(target.elts, items, strict=True):
                _bind_element(frame, part, item)


def _target_names(target: ast.expr) -> list[ast.Name]:
    return [node for node in within(target) if isinstance(node, ast.Name)]


def _other(frame: Frame, node: ast.expr, depth: int) -> Value:
    """Displays, lambdas, awaits, f-strings: what stands inside is evaluated, the thing itself is unknown."""
    if isinstance(node, ast.Lambda):
        return UNKNOWN_VALUE
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            evaluate(frame, child, depth)
    return NUMBER_VALUE if isinstance(node, ast.JoinedStr) else UNKNOWN_VALUE


_HANDLERS: dict[type[ast.expr], Callable[[Frame, ast.expr, int], Value]] = of_both(
    {
        ast.Constant: _constant,
        ast.Name: _name,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.BinOp: _binary,
        ast.UnaryOp: _unary,
        ast.Compare: _compare,
        ast.IfExp: _conditional,
        ast.BoolOp: _boolean,
        ast.Dict: _dictionary,
        ast.Tuple: _sequence,
        ast.List: _sequence,
        ast.Call: _call,
        ast.NamedExpr: _named,
        ast.Starred: _starred,
        ast.ListComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.SetComp: _comprehension,
        ast.DictComp: _mapping,
        ast.Yield: _yielded,
        ast.YieldFrom: _yielded,
        ast.Slice: _constant,
    }
)
