"""Executes statements abstractly: branches are joined, loops run until they add nothing (at most twice)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import partial, reduce

from ..source.slim_nodes import of_both
from ..torch.dtypes import FP32
from ..torch.tables.libraries import OUTPUT_ATTRIBUTES
from .alternatives import aside
from .contexts import entered
from .decided import decided, hangs_on_sizes, made_in_one, made_when_missing, name_dtypes, put_none, told_by_test
from .elements import unpacked_at
from .expressions import bind_loop_target, evaluate
from .facts import depending, lasting_facts, told_under, under
from .first_rounds import in_order
from .frame import Frame, Operand, asks_for_precision, joined_names, place_of
from .lattice import NUMBER_VALUE, UNKNOWN_VALUE, Atom, Kind, Value, join
from .leaving import leaving
from .meetings import clash_of_write, dtype_of, is_compared, record
from .promotion import promote
from .recasts import replaced, walked
from .records import forget_passed, written

MAX_NESTED_LOOPS = 2
"""Loops inside more loops than this run once."""
LOOPED_BY = ("enumerate", "zip", "reversed")


def execute(frame: Frame, body: Sequence[ast.stmt]) -> None:
    """Run the statements in order, until one leaves the block."""
    for statement in body:
        if frame.stopped:
            return
        handler = _HANDLERS.get(statement.__class__)
        if handler is not None:
            handler(frame, statement)


def _expression(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.Expr)
    evaluate(frame, node.value)
    if isinstance(node.value, ast.Call):
        forget_passed(frame, node.value)


def _assign(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.Assign)
    value = evaluate(frame, node.value)
    for target in node.targets:
        _bind(frame, target, node.value, value)


def _annotated(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.AnnAssign)
    if node.value is not None:
        _bind(frame, node.target, node.value, evaluate(frame, node.value))


def _bind(frame: Frame, target: ast.expr, source: ast.expr, value: Value) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        _unpack(frame, target, source, value)
        return
    replaced(frame, target, source)
    if isinstance(target, ast.Subscript):
        _indexed_write(frame, target, source, value)
        return
    place = place_of(target)
    if place is not None:
        _forget_weights(frame, target, value)
        _put_data(frame, target, value)
        frame.put(place, value)


def _forget_weights(frame: Frame, target: ast.expr, value: Value) -> None:
    """``cell.weight.data = other.weight.data``: from here on the module has the dtype of the other one."""
    if value.atoms and all(atom.dtype == FP32 for atom in value.atoms):
        return
    if not (isinstance(target, ast.Attribute) and target.attr == "data" and isinstance(target.value, ast.Attribute)):
        return
    owner = place_of(target.value.value)
    held = frame.get(owner) if owner is not None else None
    if owner is not None and held is not None and held.kind is Kind.MODULE:
        frame.put(owner, held.with_atoms(()))


def _put_data(frame: Frame, target: ast.expr, value: Value) -> None:
    """``buffer.data = buffer.data.float()``: the tensor itself has another dtype from here on."""
    holder = place_of(target.value) if isinstance(target, ast.Attribute) and target.attr == "data" else None
    held = frame.get(holder) if holder is not None else None
    if holder is not None and value.kind is Kind.TENSOR and (held is None or held.kind is Kind.TENSOR):
        frame.put(holder, value.with_atoms(()))


def _unpack(frame: Frame, target: ast.Tuple | ast.List, source: ast.expr, value: Value) -> None:
    if value.kind is Kind.SAVED:
        fitting = [item for item in value.items or () if item.items is not None and len(item.items) == len(target.elts)]
        value = reduce(join, fitting) if fitting else UNKNOWN_VALUE
    each = value.items[0] if value.label == "each" and value.items else value if value.label == "any" else None
    for index, item in enumerate(target.elts):
        if isinstance(item, ast.Starred):
            _bind(frame, item.value, source, UNKNOWN_VALUE)
            continue
        found = UNKNOWN_VALUE
        if each is not None:
            found = each
        elif (held := unpacked_at(value, target, index)) is not None:
            found = held
        elif value.label == "output" and (index == 0 or getattr(item, "id", "") in OUTPUT_ATTRIBUTES):
            found = value
        elif value.kind is Kind.NUMBER:
            found = NUMBER_VALUE
        _bind(frame, item, source, found)


def _indexed_write(frame: Frame, target: ast.Subscript, source: ast.expr, value: Value) -> None:
    """``t[mask] = v`` raises on another dtype, also under autocast; ``t[1:] = v`` and ``t[i] = v`` cast."""
    base = evaluate(frame, target.value)
    place, holder = place_of(target), place_of(target.value)
    if base.kind is Kind.SEQUENCE and holder is not None:
        frame.put(holder, Value(Kind.SEQUENCE))
    if base.kind in (Kind.RECORD, Kind.BATCH):
        written(frame, target, base, value)
    if place is not None:
        frame.put(place, value)
        return
    if not is_compared(frame, base) or not _selects_by_tensor(frame, target.slice) or value.scalar:
        return
    if not is_compared(frame, value):
        return
    met = clash_of_write(frame)
    for one in base.atoms:
        for other in value.atoms:
            found = met(one, other)
            if found is not None:
                places = (target.value, source) if found[0] is one else (source, target.value)
                wide, narrow = zip(places, found, strict=True)
                _record_write(frame, target, wide, narrow)


def _record_write(
    frame: Frame, target: ast.Subscript, wide: tuple[ast.expr, Atom], narrow: tuple[ast.expr, Atom]
) -> None:
    respelled = dtype_of(target.value)
    record(frame, target, "index_put", "raises-destination", Operand(*wide), Operand(*narrow), respelled)


def _selects_by_tensor(frame: Frame, index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(_is_tensor_index(frame, part) for part in parts)


def _is_tensor_index(frame: Frame, part: ast.expr) -> bool:
    if isinstance(part, ast.Slice | ast.Constant):
        return False
    value = evaluate(frame, part)
    if value.kind is Kind.TENSOR:
        return not value.scalar
    return value.kind is Kind.UNKNOWN and _reads_as_tensor(part)


def _reads_as_tensor(part: ast.expr) -> bool:
    """``mask``, ``~mask``, ``ids == 3``, ``keep & seen``, ``mask.bool()``: nobody selects by a Python bool."""
    if isinstance(part, ast.UnaryOp):
        return isinstance(part.op, ast.Invert)
    if isinstance(part, ast.BinOp):
        return isinstance(part.op, ast.BitAnd | ast.BitOr)
    if isinstance(part, ast.Call):
        return isinstance(part.func, ast.Attribute) and part.func.attr in ("bool", "long", "nonzero")
    name = part.id if isinstance(part, ast.Name) else part.attr if isinstance(part, ast.Attribute) else ""
    return isinstance(part, ast.Compare) or name.endswith("mask") or name in ("keep", "valid")


def _augmented(frame: Frame, node: ast.stmt) -> None:
    """``a += b`` writes into ``a``, whose dtype stays; for what is not known to be a tensor, nothing is known."""
    assert isinstance(node, ast.AugAssign)
    before, value = evaluate(frame, node.target), evaluate(frame, node.value)
    place = place_of(node.target)
    if place is None or before.kind is Kind.TENSOR:
        return
    known = before.kind is Kind.NUMBER and value.kind in (Kind.TENSOR, Kind.NUMBER)
    frame.put(place, promote([before, value], frame.module.document.path, node.value) if known else UNKNOWN_VALUE)


def _return(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.Return)
    value = evaluate(frame, node.value) if node.value is not None else NUMBER_VALUE
    frame.returned.append(leaving(frame, node.value, value) if node.value is not None else value)
    frame.stopped = True


def _leave(frame: Frame, node: ast.stmt) -> None:
    frame.stopped = True


def _if(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.If)
    evaluate(frame, node.test)
    outcome = decided(frame, node.test, partial(evaluate, frame))
    if outcome is not None:
        execute(frame, node.body if outcome else node.orelse)
        return
    before, asked = dict(frame.names), frame.project.memo(asks_for_precision, node.test)
    facts_of = partial(partial, lasting_facts, frame.project, frame.module, node.test)
    outcomes: list[tuple[dict[str, Value], bool]] = []
    hanging = depending(before)
    branches, continued = frame.project.memo(in_order, node)
    for branch in branches:
        frame.names, frame.stopped = under(before, hanging, facts_of(branch is node.body)), False
        put_none(frame, node, branch)
        if outcomes and frame.loops:
            frame.names |= {name: outcomes[0][0][name] for name in continued & outcomes[0][0].keys()}
        if frame.run is not None and (asked or frame.project.memo(hangs_on_sizes, (frame.module, node.test))):
            with aside(frame):
                execute(frame, branch)
        else:
            execute(frame, branch)
        outcomes.append((frame.names, frame.stopped))
    reached = [names for names, stopped in outcomes if not stopped]
    if len(reached) == 2 and not asked:
        said = [facts_of(branch is node.body) for branch in branches]
        reached = [told_under(reached[0], reached[1], said[0]), told_under(reached[1], reached[0], said[1])]
    frame.stopped = not reached
    if len(reached) == 2 and asked:
        frame.names = told_by_test(*reached)
    elif reached:
        frame.names = joined_names(reached)
    if frame.function is not None and frame.function.name == "__init__":
        frame.names |= made_in_one(reached, frame.names)
    else:
        frame.names |= made_when_missing(frame, node, outcomes[branches.index(node.body)][0])
    name_dtypes(frame, before, node)


def _loop(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.For | ast.AsyncFor)
    iterated = evaluate(frame, node.iter)
    walked(frame, node)
    skipped = not _runs_for_certain(frame, node.iter, iterated)
    _repeat(frame, node.body, lambda: bind_loop_target(frame, node.target, node.iter, iterated), skipped=skipped)
    execute(frame, node.orelse)


def _runs_for_certain(frame: Frame, node: ast.expr, iterated: Value) -> bool:
    """A loop over the layers of a model, counted or not: no model is built without any."""
    of_builtin = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LOOPED_BY
    if isinstance(node, ast.Call) and of_builtin:
        return any(evaluate(frame, item).kind is Kind.MODULE for item in node.args)
    return iterated.kind is Kind.MODULE


def _while(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.While)
    _repeat(frame, node.body, lambda: evaluate(frame, node.test))
    execute(frame, node.orelse)


def _repeat(frame: Frame, body: Sequence[ast.stmt], start: Callable[[], object], *, skipped: bool = True) -> None:
    """Each round starts from what the one before it left; ``skipped``: there may be none."""
    frame.loops += 1
    rounds = 2 if frame.loops <= MAX_NESTED_LOOPS else 1
    first, ends = dict(frame.names), []
    for _ in range(rounds):
        before = dict(frame.names)
        start()
        execute(frame, body)
        frame.stopped = False
        ends.append(dict(frame.names))
        if frame.names == before:
            break
    frame.loops -= 1
    left = joined_names(ends)
    frame.names = joined_names([first, left]) | _new(first, left) if skipped else left


def _new(before: dict[str, Value], after: dict[str, Value]) -> dict[str, Value]:
    """Names that only the loop binds are seen after it as it left them."""
    return {place: value for place, value in after.items() if place not in before}


def _with(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.With | ast.AsyncWith)
    outer = frame.autocast
    for item in node.items:
        evaluate(frame, item.context_expr)
        frame.autocast = entered(frame, item.context_expr)
        if isinstance(item.optional_vars, ast.Name):
            frame.put(item.optional_vars.id, UNKNOWN_VALUE)
    execute(frame, node.body)
    frame.autocast = outer


def _try(frame: Frame, node: ast.stmt) -> None:
    before = dict(frame.names)
    execute(frame, node.body)  # type: ignore[attr-defined]
    after, stopped = frame.names, frame.stopped
    outcomes = [] if stopped else [after]
    for handler in node.handlers:  # type: ignore[attr-defined]
        frame.names, frame.stopped = joined_names([before, after]), False
        execute(frame, handler.body)
        if not frame.stopped:
            outcomes.append(frame.names)
    frame.stopped = not outcomes
    frame.names = joined_names(outcomes) if outcomes else after
    execute(frame, [*node.orelse, *node.finalbody])  # type: ignore[attr-defined]


def _match(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.Match)
    evaluate(frame, node.subject)
    outcomes = [before := dict(frame.names)]
    for case in node.cases:
        frame.names, frame.stopped = dict(before), False
        execute(frame, case.body)
        if not frame.stopped:
            outcomes.append(frame.names)
    frame.names, frame.stopped = joined_names(outcomes), False


def _delete(frame: Frame, node: ast.stmt) -> None:
    assert isinstance(node, ast.Delete)
    for target in node.targets:
        frame.names.pop(place_of(target) or "", None)


_HANDLERS: dict[type[ast.AST], Callable[[Frame, ast.stmt], None]] = of_both(
    {
        ast.Expr: _expression,
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.AugAssign: _augmented,
        ast.Return: _return,
        ast.Raise: _leave,
        ast.Break: _leave,
        ast.Continue: _leave,
        ast.If: _if,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.While: _while,
        ast.With: _with,
        ast.AsyncWith: _with,
        ast.Try: _try,
        ast.Match: _match,
        ast.Delete: _delete,
    }
)
