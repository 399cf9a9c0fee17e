"""What must hold for a statement to be reached because an earlier one would have left: guard clauses and asserts."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def blocks_of(parent: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements that a statement, a function, a class or a module holds."""
    found = (getattr(parent, name, None) for name in ("body", "orelse", "finalbody"))
    return (block for block in found if isinstance(block, list))


def before(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """The statements above ``child`` in its block of ``parent``."""
    return [item for block in blocks_of(parent) if child in block for item in block[: block.index(child)]]


def after(parent: ast.AST, child: ast.AST) -> list[ast.stmt]:
    """The statements below ``child`` in its block of ``parent``."""
    return [item for block in blocks_of(parent) if child in block for item in block[block.index(child) + 1 :]]


def earlier_tests(parent: ast.AST, child: ast.AST) -> Iterator[tuple[ast.expr, bool]]:
    """The tests before ``child`` in its block of ``parent``, each with the outcome that does not leave the block."""
    for statement in before(parent, child):
        yield from _passed(statement)


def _passed(statement: ast.stmt) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(statement, ast.Assert):
        yield statement.test, True
    elif isinstance(statement, ast.If):
        if leaves(statement.body):
            yield statement.test, False
        elif leaves(statement.orelse):
            yield statement.test, True


def leaves(block: Sequence[ast.stmt]) -> bool:
    """Whether control certainly does not run past the end of ``block``."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, LEAVING)
