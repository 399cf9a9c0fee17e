"""Functions that are too large to be followed."""

from __future__ import annotations

import ast

MAX_STATEMENTS = 1200
"""A larger function degrades to unknown."""


def is_too_large(body: list[ast.stmt]) -> bool:
    if body and (body[-1].end_lineno or 0) - body[0].lineno < MAX_STATEMENTS:
        return False
    count = 0
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        count += isinstance(node, ast.stmt)
        if count > MAX_STATEMENTS:
            return True
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            stack.extend(getattr(node, name, []) if isinstance(getattr(node, name, []), list) else [])
    return False
