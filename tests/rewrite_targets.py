"""Finding the span of a node by its source text, as the rules do with `ast`, for the tests of the rewriter."""

from __future__ import annotations

import ast
from textwrap import dedent

from precfix.codemod.model import PythonOperation, Span
from precfix.codemod.rewrite import rewrite


def span_of(text: str, node: ast.stmt | ast.expr) -> Span:
    """The span of an `ast` node in characters."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")

    def column(row: int, offset: int) -> int:
        return len(lines[row - 1].encode()[:offset].decode()) + 1

    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start, end = column(node.lineno, node.col_offset), column(node.end_lineno, node.end_col_offset)
    return Span(node.lineno, start, node.end_lineno, end)


def _segment(text: str, node: ast.AST) -> str:
    return (ast.get_source_segment(text, node) or "").replace("\r\n", "\n").replace("\r", "\n")


def stmt(text: str, start: str, number: int = 0) -> Span:
    """The span of the ``number``-th statement whose source starts with ``start``."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    found = [node for node in nodes if _segment(text, node).startswith(start)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return span_of(text, found[number])


def expr(text: str, source: str, number: int = 0) -> Span:
    """The span of the ``number``-th expression whose source is ``source``."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.expr)]
    found = [node for node in nodes if _segment(text, node) == source]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    return span_of(text, found[number])


def call(text: str, start: str) -> Span:
    """The span of the longest call whose source starts with ``start``."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    found = [node for node in nodes if _segment(text, node).startswith(start)]
    return span_of(text, max(found, key=lambda node: len(_segment(text, node))))


def code(text: str) -> str:
    """``text`` less its common indentation and the newline that opens it."""
    return dedent(text.removeprefix("\n"))


def edited(text: str, *operations: PythonOperation) -> str:
    """The text after the operations."""
    return rewrite(text, operations)
