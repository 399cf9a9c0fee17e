"""The edit that computes one operation in float32: its tensors are cast before, its result is cast back."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...codemod.documents import Document
from ...codemod.model import Edit, ReplaceExpression, Span

_POSTFIX = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""Expressions that take a method without parentheses."""


def float_around(document: Document, call: ast.Call, tensors: Sequence[ast.expr], result: str) -> Edit:
    """Append ``.float()`` to each of ``tensors`` (parts of ``call``), and ``.to(result)`` to the call."""
    whole = document.span(call)
    parts: list[str | Span] = []
    position = document.offset(whole.row, whole.column)
    for node in sorted(tensors, key=lambda item: (item.lineno, item.col_offset)):
        span = document.span(node)
        plain = isinstance(node, _POSTFIX)
        before = document.text[position : document.offset(span.row, span.column)]
        parts += [before if plain else f"{before}(", span, ".float()" if plain else ").float()"]
        position = document.offset(span.end_row, span.end_column)
    rest = document.text[position : document.offset(whole.end_row, whole.end_column)]
    parts.append(f"{rest}.to({result})" if result else rest)
    return Edit(document.path, ReplaceExpression(whole, tuple(part for part in parts if part)))
