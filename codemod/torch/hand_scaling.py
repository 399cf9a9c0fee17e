"""Losses that a function scales by hand."""

from __future__ import annotations

import ast

from ..source.project import Project


def multiplied(_: Project, function: ast.AST) -> frozenset[str]:
    """What is scaled by hand in a function: ``loss * 1024``, ``loss * scale``."""
    found: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            sides = [node.left, node.right]
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Mult):
            sides = [node.target, node.value]
        else:
            continue
        texts = [ast.unparse(side) for side in sides]
        large = any(isinstance(side, ast.Constant | ast.BinOp) and _is_large(side) for side in sides)
        if large or any("scal" in text.lower() for text in texts):
            found.update(texts)
    return frozenset(found)


def _is_large(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Pow)
    value = node.value if isinstance(node, ast.Constant) else 0
    return isinstance(value, int | float) and value >= 64
