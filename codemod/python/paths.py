"""Which statements of one function can run together, and in which order: guards, early exits, loops.

Positions stand for order: a statement further down runs later, except for what a loop repeats. A guard is a condition
that must hold for a node to be reached; leaving early (``if x: continue``) guards everything below it by ``not x``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from .names import ModuleNames, attribute_chain
from .scopes import text_of

LoopNode: TypeAlias = ast.For | ast.AsyncFor | ast.While
Loops = (ast.For, ast.AsyncFor, ast.While)
ScopeNodes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
PathFacts: TypeAlias = frozenset[tuple[str, bool]]
"""Texts that are true or false."""
EXITS_OF_PROCESS = ("sys.exit", "exit", "quit", "os._exit")


@dataclass(frozen=True, slots=True, eq=False)
class Guard:
    """``test`` comes out as ``holds`` wherever the guarded node is reached."""

    test: ast.expr
    holds: bool
    leaving: ast.stmt | None = None
    """For a guard by an early exit: the statement that leaves (``continue``, ``return``, ``assert`` and their like)."""

    @property
    def facts(self) -> tuple[tuple[str, bool], ...]:
        """What the guard says, as texts that are true or false; ``x is not None`` counts as the truth of ``x``."""
        return tuple(_facts(self.test, self.holds))


def _facts(test: ast.expr, holds: bool) -> Iterator[tuple[str, bool]]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _facts(test.operand, not holds)
    elif isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) == holds:
        for value in test.values:
            yield from _facts(value, holds)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield _comparison(test, holds)
    elif isinstance(test, ast.NamedExpr):
        yield from _facts(test.target, holds)
    else:
        yield text_of(test), holds


def _comparison(test: ast.Compare, holds: bool) -> tuple[str, bool]:
    operator, left, right = test.ops[0], test.left, test.comparators[0]
    negative = isinstance(operator, ast.NotEq | ast.IsNot | ast.NotIn)
    sides = (text_of(left), text_of(right))
    if isinstance(operator, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
        if sides[1] in ("None", "True", "False"):
            return sides[0], (holds == (sides[1] == "True")) != negative
        return " == ".join(sorted(sides)), holds != negative
    if isinstance(operator, ast.In | ast.NotIn):
        return " in ".join(sides), holds != negative
    return ast.unparse(test), holds


def name_parts(node: ast.expr) -> set[str]:
    """The lower-case words in the names an expression reads: ``args.max_grad_norm`` gives args, max, grad, norm."""
    names = [item.id for item in ast.walk(node) if isinstance(item, ast.Name)]
    names += [item.attr for item in ast.walk(node) if isinstance(item, ast.Attribute)]
    return parts_of(names)


def parts_of(names: Iterable[str]) -> set[str]:
    """The lower-case words in names."""
    return {part for name in names for part in name.lower().split("_") if part}


def function_of(module: ModuleNames, node: ast.AST) -> ast.AST:
    """The function (or module, or class body) whose statements ``node`` is part of; lambdas count as their function."""
    return module.scope_of(node).function.node


def guards(module: ModuleNames, node: ast.AST) -> tuple[Guard, ...]:
    """Everything that must hold for ``node`` to run inside its function, outermost first."""
    found: list[Guard] = []
    child: ast.AST = node
    for parent in module.ancestors(node):
        if isinstance(child, ast.stmt):
            found.extend(_early_exits(module, child))
        if isinstance(parent, ast.If | ast.IfExp) and child is not parent.test:
            body = parent.body if isinstance(parent.body, list) else [parent.body]
            found.append(Guard(parent.test, any(child is item for item in body)))
        elif isinstance(parent, ast.BoolOp):
            position = parent.values.index(child) if isinstance(child, ast.expr) and child in parent.values else 0
            found.extend(Guard(item, isinstance(parent.op, ast.And)) for item in parent.values[:position])
        if isinstance(parent, ScopeNodes) and not isinstance(parent, ast.Lambda):
            break
        child = parent
    return tuple(reversed(found))


def _early_exits(module: ModuleNames, child: ast.stmt) -> Iterator[Guard]:
    tests, above = module.tests_above.get(child, ([], 0))
    for statement in reversed(tests[:above]):
        yield from _leaving(module, statement)


def _leaving(module: ModuleNames, statement: ast.If | ast.Assert) -> Iterator[Guard]:
    if isinstance(statement, ast.Assert):
        yield Guard(statement.test, True, statement)
        return
    leaves = leaving_statement(module, statement.body)
    if leaves is not None:
        yield Guard(statement.test, False, leaves)
    other = leaving_statement(module, statement.orelse)
    if other is not None:
        yield Guard(statement.test, True, other)


def leaving_statement(module: ModuleNames, block: Sequence[ast.stmt]) -> ast.stmt | None:
    """The statement at the end of ``block`` after which nothing below runs, or None when the block goes on."""
    last = block[-1] if block else None
    if isinstance(last, ast.Continue | ast.Break | ast.Return | ast.Raise):
        return last
    if isinstance(last, ast.If):
        return leaving_statement(module, last.body) and leaving_statement(module, last.orelse)
    if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
        name = ".".join(attribute_chain(last.value.func) or ())
        return last if (module.qualified(last.value.func) or name) in EXITS_OF_PROCESS else None
    return None


def guard_facts(module: ModuleNames, node: ast.AST) -> PathFacts:
    """The facts of all guards of ``node``."""
    return frozenset(fact for guard in guards(module, node) for fact in guard.facts)


def exclusive(module: ModuleNames, first: ast.AST, second: ast.AST) -> bool:
    """Whether both nodes of one function certainly do not run in the same pass."""
    if _contradicts(guards(module, first), guard_facts(module, second)):
        return True
    if _contradicts(guards(module, second), guard_facts(module, first)):
        return True
    return _in_different_arms(module, first, second)


def _contradicts(mine: Sequence[Guard], theirs: PathFacts) -> bool:
    """Whether some guard cannot hold where ``theirs`` do; ``a or b`` fails only where both are known to be false."""
    for guard in mine:
        if any((text, not holds) in theirs for text, holds in guard.facts):
            return True
        if set(_facts(guard.test, not guard.holds)) <= theirs:
            return True
    return False


def _in_different_arms(module: ModuleNames, first: ast.AST, second: ast.AST) -> bool:
    chain = [first, *module.ancestors(first)]
    known = set(chain)
    child: ast.AST = second
    for parent in module.ancestors(second):
        if parent in known:
            mine = chain[chain.index(parent) - 1] if parent is not first else first
            return _arm(parent, mine) != _arm(parent, child)
        child = parent
    return False


def _arm(parent: ast.AST, child: ast.AST) -> object:
    """Which of the alternatives of ``parent`` holds ``child``; None when all of it runs."""
    if isinstance(parent, ast.Match):
        return child if isinstance(child, ast.match_case) else None
    if isinstance(parent, ast.Try):
        return "handler" if isinstance(child, ast.ExceptHandler) else None
    return None


def loops(module: ModuleNames, node: ast.AST) -> tuple[LoopNode, ...]:
    """The loops of its own function whose body repeats ``node``, innermost first; not ``for _ in range(1)``."""
    found: list[LoopNode] = []
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ScopeNodes) and not isinstance(parent, ast.Lambda):
            break
        if isinstance(parent, Loops) and child in parent.body and not _runs_once(module, parent):
            found.append(parent)
        child = parent
    return tuple(found)


def _runs_once(module: ModuleNames, loop: LoopNode) -> bool:
    """``for _ in range(1)``, with the number written there or in a constant."""
    over = loop.iter if isinstance(loop, ast.For) else None
    if not isinstance(over, ast.Call) or ast.unparse(over.func) != "range" or len(over.args) != 1:
        return False
    count: ast.expr | None = over.args[0]
    if isinstance(count, ast.Name):
        bindings = module.bindings_of(count)
        count = bindings[0].value if len(bindings) == 1 else None
    return isinstance(count, ast.Constant) and count.value == 1


def tries(module: ModuleNames, node: ast.AST) -> Iterator[ast.Try]:
    """The ``try`` statements of its own function that would see an exception raised at ``node``, innermost first."""
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try) and parent.handlers and child in parent.body:
            yield parent
        if isinstance(parent, ScopeNodes):
            return
        child = parent


def loop_names(loop: LoopNode) -> set[str]:
    if isinstance(loop, ast.While):
        return set()
    return {item.id for item in ast.walk(loop.target) if isinstance(item, ast.Name)}


def position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def calls_of(module: ModuleNames, function: ast.AST) -> list[ast.Call]:
    """The calls that run as part of ``function`` itself, in source order (those of nested functions left out)."""
    return module.calls_by_function.get(function, [])
