"""The edits that compute one operation in float32: its tensors are cast before, its result is cast back."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...codemod.model import Edit, ReplaceExpression
from ...codemod.source.documents import Document

POSTFIX = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""Expressions that take a method without parentheses."""


def float_around(document: Document, call: ast.Call, tensors: Sequence[ast.expr], result: str) -> tuple[Edit, ...]:
    """Append ``.float()`` to each of ``tensors`` (parts of ``call``), and ``.to(result)`` to the call."""
    operations = [_cast(document, node) for node in tensors]
    if result:
        whole = document.span(call)
        operations.append(ReplaceExpression(whole, (whole, f".to({result})")))
    return tuple(Edit(document.path, operation) for operation in operations)


def _cast(document: Document, node: ast.expr) -> ReplaceExpression:
    span = document.span(node)
    parts = (span, ".float()") if isinstance(node, POSTFIX) else ("(", span, ").float()")
    return ReplaceExpression(span, parts)
