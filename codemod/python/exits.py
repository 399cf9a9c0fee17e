"""The statements of a block, and those above and below one of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator


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
