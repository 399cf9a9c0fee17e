"""The spans of a user's file: columns in characters, and which expressions stand in a call as its tensors."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

LARGEST = 4 << 20
Span = tuple[int, int, int, int]
"""First row, first column, last row, column after the last: rows and columns from 1, in characters."""


@dataclass
class Source:
    """One file of the user, as Python reads it."""

    path: Path
    code: bytes | None = None
    """Python code where that is not what the file holds: of a notebook."""

    @cached_property
    def data(self) -> bytes:
        try:
            return self.path.read_bytes() if self.path.stat().st_size <= LARGEST else b""
        except OSError:
            return b""

    @cached_property
    def lines(self) -> Sequence[bytes]:
        return self._python.splitlines()

    @property
    def _python(self) -> bytes:
        return self.data if self.code is None else self.code

    @cached_property
    def nodes(self) -> Mapping[tuple[int, int | None, int | None, int | None], ast.expr]:
        """The expressions by row, end row and columns, as ``co_positions`` gives them; the outermost at a span."""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                tree = ast.parse(self._python)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return {}
        found: dict[tuple[int, int | None, int | None, int | None], ast.expr] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.expr):
                found.setdefault((node.lineno, node.end_lineno, node.col_offset, node.end_col_offset), node)
        return found

    def span(self, row: int, end_row: int, column: int | None, end_column: int | None) -> Span:
        if column is None or end_column is None:
            return row, 1, row, 1 + len(self._text(row, 1 << 20))
        return row, 1 + len(self._text(row, column)), end_row, 1 + len(self._text(end_row, end_column))

    def _text(self, row: int, column: int) -> str:
        line = self.lines[row - 1] if 0 < row <= len(self.lines) else b""
        return line[:column].decode("utf-8", "replace")

    def operand(self, place: Sequence[int | None], form: str, count: int, index: int) -> ast.expr | None:
        """The expression of one tensor among the ``count`` that an expression took; None where it is not certain."""
        row, end_row, column, end_column = place
        if row is None:
            return None
        node = self.nodes.get((row, end_row, column, end_column))
        parts = _parts(node, form)
        tensors = [each for each in parts if not isinstance(each, ast.Constant)]
        return tensors[index] if len(tensors) == count else None

    def span_of(self, node: ast.expr) -> Span:
        return self.span(node.lineno, node.end_lineno or node.lineno, node.col_offset, node.end_col_offset)


def _parts(node: ast.expr | None, form: str) -> list[ast.expr]:
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        return [node.left, node.comparators[0]]
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return []
    if any(keyword.arg is None for keyword in node.keywords):
        return []
    own = [node.func.value] if form == "method" and isinstance(node.func, ast.Attribute) else []
    return [*own, *node.args, *(keyword.value for keyword in node.keywords)]


def kind_of(node: ast.expr | None) -> str:
    """What an expression is called in a record."""
    if isinstance(node, ast.Name):
        return "name"
    if isinstance(node, ast.Attribute):
        return "attribute"
    return "call" if isinstance(node, ast.Call) else "operand"
