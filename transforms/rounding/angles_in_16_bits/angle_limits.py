"""How many positions code lets through before or after it takes their sine and cosine."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import function_of, guards
from .angle_origins import AngleOrigin

LETS_FEW = {True: (ast.Eq, ast.Lt, ast.LtE), False: (ast.NotEq, ast.GtE, ast.Gt)}
"""Comparisons with a number that let no larger one through, by whether they hold."""


def positions_let_through(module: ModuleNames, call: ast.Call, origin: AngleOrigin) -> float:
    """The most positions for which ``call`` runs, and its function does not raise below it; infinite where any may."""
    counted = origin.counted.args[:2][-1] if origin.counted is not None and origin.counted.args else None
    if counted is None:
        return math.inf
    named = _spellings(module, counted)
    limits = (_limit(module, test, holds, named) for test, holds in _tests(module, call))
    return min(limits, default=math.inf)


def _tests(module: ModuleNames, call: ast.Call) -> Iterator[tuple[ast.expr, bool]]:
    """The tests that a call, and the end of its function, are passed by."""
    yield from ((guard.test, guard.holds) for guard in guards(module, call))
    body = getattr(function_of(module, call), "body", [])
    for guard in guards(module, body[-1]) if body else ():
        if isinstance(guard.leaving, ast.Raise | ast.Assert):
            yield guard.test, guard.holds


def _limit(module: ModuleNames, test: ast.expr, holds: bool, named: set[str]) -> float:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _limit(module, test.operand, not holds, named)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        return min(_limit(module, part, holds, named) for part in test.values)
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.comparators[0], ast.Constant):
        return math.inf
    end = test.comparators[0].value
    is_count = isinstance(test.ops[0], LETS_FEW[holds]) and not named.isdisjoint(_spellings(module, test.left))
    return end if is_count and isinstance(end, int) else math.inf


def _spellings(module: ModuleNames, node: ast.expr) -> set[str]:
    """An expression, and what a variable stands for."""
    value = only_value(module, node) if isinstance(node, ast.Name) else None
    return {ast.unparse(item) for item in (node, value) if item is not None}
