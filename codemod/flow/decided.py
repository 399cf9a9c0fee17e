"""What conditions tell: their outcome in a model that is certainly 16-bit, and what is None in a branch of any."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace

from ..purpose.outcomes import can_come_out
from ..python.bindings import self_stores
from ..python.names import ModuleNames
from ..python.paths import guards
from ..python.scopes import is_none
from ..source.project import Project
from ..torch.api import CASTS
from ..torch.dtypes import Dtype
from .attributes import named_by
from .frame import Autocasting, Frame, asks_for_precision, differing, joined_names, place_of
from .lattice import NONE_VALUE, Atom, Kind, Role, Value, join

ENABLED = ("torch.is_autocast_enabled", "torch.is_autocast_cpu_enabled", "torch.is_autocast_gpu_enabled")
PLAIN = {"None": False, "False": False, "True": True}
"""The labels of plain values (`left_out.constant_value`), and their truth."""
Evaluate = Callable[[ast.expr], Value]


def decided(frame: Frame, test: ast.expr, evaluate: Evaluate) -> bool | None:
    """What a condition is while a model is followed; None where that is not known, or runs differ.

    One that is written out, ``if True:``, is known anywhere.
    """
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if frame.run is None:
        return None
    known = _by_values(frame, test, evaluate)
    if known is not None or frame.project.memo(asks_for_precision, test):
        return known
    taken = [outcome for outcome in (True, False) if _can_come_out(frame, test, outcome)]
    return taken[0] if len(taken) == 1 else None


def is_cast_where_asked(choice: ast.IfExp) -> bool:
    """``x.half() if on_gpu else x``: whoever reads it may ask the same, so that only one of the dtypes comes there."""
    for cast, other in ((choice.body, choice.orelse), (choice.orelse, choice.body)):
        method = cast.func if isinstance(cast, ast.Call) else None
        held = method.value if isinstance(method, ast.Attribute) and method.attr in CASTS else None
        if isinstance(held, ast.Name | ast.Attribute) and ast.dump(held) == ast.dump(other):
            return True
    return False


def _by_values(frame: Frame, test: ast.expr, evaluate: Evaluate) -> bool | None:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _by_values(frame, test.operand, evaluate)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        ends = isinstance(test.op, ast.Or)
        parts = [_by_values(frame, item, evaluate) for item in test.values]
        return ends if ends in parts else None if None in parts else not ends
    if isinstance(test, ast.Name | ast.Attribute):
        return PLAIN.get(evaluate(test).label)
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test.left, test.ops[0], test.comparators[0], evaluate)
    if isinstance(test, ast.Call) and frame.analysis.qualified(frame.module, test.func) in ENABLED:
        return False if frame.autocast.state is Autocasting.OFF else None
    return None


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr, evaluate: Evaluate) -> bool | None:
    if isinstance(operator, ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None:
        value = evaluate(left)
        if value.label in PLAIN:
            return isinstance(operator, ast.Is) is (value.label == "None")
        there = value.kind is Kind.TENSOR and bool(value.atoms)
        return isinstance(operator, ast.IsNot) if there else None
    one = _dtype(evaluate(left))
    if one is None:
        return None
    if isinstance(operator, ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
        other = _dtype(evaluate(right))
        return None if other is None else (one == other) is isinstance(operator, ast.Eq | ast.Is)
    if isinstance(operator, ast.In | ast.NotIn) and isinstance(right, ast.Tuple | ast.List | ast.Set):
        listed = [_dtype(evaluate(item)) for item in right.elts]
        return None if None in listed else (one in listed) is isinstance(operator, ast.In)
    return None


def _can_come_out(frame: Frame, test: ast.expr, holds: bool) -> bool:
    """Whether a switch may have been set so; what the call that is followed passed may be anything."""
    passed = set(frame.names) & {item.id for item in ast.walk(test) if isinstance(item, ast.Name)} - {"self"}
    return bool(passed) or can_come_out(frame.project, frame.module, test, holds)


def _dtype(value: Value) -> Dtype | None:
    """The one dtype that a dtype-valued expression certainly is."""
    return value.atoms[0].dtype if value.kind is Kind.DTYPE and len(value.atoms) == 1 else None


def put_none(frame: Frame, node: ast.If, branch: list[ast.stmt]) -> None:
    """What ``if x is None`` asks for is no tensor in the branch where it is None: none comes that way."""
    test = node.test
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Is | ast.IsNot) or len(test.ops) > 1:
        return
    right, place = test.comparators[0], place_of(test.left)
    is_none = isinstance(right, ast.Constant) and right.value is None
    if is_none and place in frame.names and branch is (node.body if isinstance(test.ops[0], ast.Is) else node.orelse):
        frame.put(place, NONE_VALUE)


def made_in_one(branches: list[dict[str, Value]], joined: dict[str, Value]) -> dict[str, Value]:
    """Attributes that some branches of a constructor do not give: who reads them has taken one that does."""
    found: dict[str, Value] = {}
    for names in branches:
        for place in [place for place in names if place.startswith("self.") and place not in joined]:
            found[place] = join(found[place], names[place]) if place in found else names[place]
    return found


def made_when_missing(frame: Frame, node: ast.If, made: dict[str, Value]) -> dict[str, Value]:
    """``if self.mask is None or ...: self.mask = ...``: what nothing else makes is from here on what is made there."""
    places = frame.project.memo(_made_when_missing, (frame.module, node))
    return {place: made[place] for place in places & made.keys()}


def _made_when_missing(_project: Project, asked: tuple[ModuleNames, ast.If]) -> frozenset[str]:
    module, node = asked
    owner = module.scope_of(node).enclosing_class
    tests = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or) else [node.test]
    missing = [test.left for test in tests if isinstance(test, ast.Compare) and _is_none(test)]
    names = [item.attr for item in missing if isinstance(item, ast.Attribute) and ast.unparse(item.value) == "self"]
    return frozenset(
        f"self.{name}"
        for name in names
        if owner is not None
        and all(_is_inside(module, store, node) or _stores_none(store) for _, store in self_stores(module, owner, name))
    )


def _is_inside(module: ModuleNames, statement: ast.stmt, node: ast.If) -> bool:
    """Whether a statement stands where the test of ``node`` holds."""
    return any(item in node.body for item in (statement, *module.ancestors(statement)))


def _is_none(test: ast.Compare) -> bool:
    right = test.comparators[0]
    return isinstance(test.ops[0], ast.Is) and isinstance(right, ast.Constant) and right.value is None


def _stores_none(store: ast.AST) -> bool:
    return isinstance(store, ast.Assign) and isinstance(store.value, ast.Constant) and store.value.value is None


def hangs_on_sizes(_project: Project, asked: tuple[ModuleNames, ast.expr]) -> bool:
    """Whether a condition asks for a part that a constructor makes where two sizes differ, and leaves None elsewhere.

    Which of the objects of a class have it, their arguments decide: ``nn.Linear(width, inner) if inner != width else
    None``.
    """
    module, test = asked
    owner = module.scope_of(test).enclosing_class
    named = [
        node.attr for node in ast.walk(test) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    ]
    stores = [store for name in named for store in self_stores(module, owner, name)] if owner is not None else []
    choices = [value for value, _ in stores if isinstance(value, ast.IfExp)]
    tests = [item.test for item in choices if any(is_none(each) for each in (item.body, item.orelse))]
    if any(is_none(value) for value, _ in stores):
        tests += [guard.test for _, statement in stores for guard in guards(module, statement)]
    return any(_compares_sizes(node) for item in tests for node in ast.walk(item))


def _compares_sizes(node: ast.AST) -> bool:
    sides = (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()
    return bool(sides) and all(isinstance(side, ast.Name | ast.Attribute) for side in sides)


def told_by_test(first: dict[str, Value], second: dict[str, Value]) -> dict[str, Value]:
    """After a test of the dtype itself: which dtype the tensors and models have that a branch changed is not told."""
    result = joined_names([first, second])
    for place in (*first, *second):
        value = first.get(place) or second.get(place)
        if value is not None and value.kind in (Kind.TENSOR, Kind.MODULE) and first.get(place) != second.get(place):
            result[place] = result.get(place, value).with_atoms(())
    return result


def name_dtypes(frame: Frame, before: dict[str, Value], node: ast.If) -> None:
    """A dtype variable that an ``if`` gives several values is a symbol from here on."""
    for place in differing(frame.names, before):
        value = frame.names[place]
        if value.kind is Kind.DTYPE and len(value.atoms) > 1 and value != before.get(place):
            expression = ast.parse(place, mode="eval").body
            atoms = value.atoms
            half = any(atom.is_half for atom in atoms)
            source = frame.source(node, f"{place} is chosen here")
            symbol = Atom(symbol=place, role=Role.EXPRESSION, can_be_half=half, source=source, expression=expression)
            frame.names[place] = Value(Kind.DTYPE, (replace(symbol, candidates=named_by(atoms)),))
