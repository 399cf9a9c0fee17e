"""What a call is a method of, and which argument of it fills which parameter."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """The names of a callable's parameters, in positional order."""

    names: tuple[str, ...]


def bind(signature: Signature, call: ast.Call, skip: int = 0) -> dict[str, ast.expr] | None:
    """Parameter name -> argument. None when ``*args`` or ``**kwargs`` hide what is passed, or too many are given.

    ``skip`` leaves out the first positional arguments (``functools.partial(f, ...)``).
    """
    positional = call.args[skip:]
    if any(isinstance(argument, ast.Starred) for argument in positional) or len(positional) > len(signature.names):
        return None
    bound = dict(zip(signature.names, positional, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None:
            return None
        bound[keyword.arg] = keyword.value
    return bound


def receiver_of(node: ast.AST | None, *methods: str) -> ast.expr | None:
    """``x`` of a call ``x.method(...)``, of one of ``methods`` where some are named; None for anything else."""
    func = node.func if isinstance(node, ast.Call) else None
    return func.value if isinstance(func, ast.Attribute) and (not methods or func.attr in methods) else None


def hides_arguments(call: ast.Call) -> bool:
    """``f(*args)``, ``f(**options)``: what is passed for which parameter is not written down."""
    return any(isinstance(item, ast.Starred) for item in call.args) or any(item.arg is None for item in call.keywords)


def owner_of(call: ast.Call) -> str:
    """The text of ``x`` in ``x.method(...)``; empty for a function."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def argument(call: ast.Call, *names: str, position: int | None = None) -> ast.expr | None:
    """What a call passes under one of ``names``, else at ``position``; None where it passes nothing, or ``*``."""
    named = next((item.value for item in call.keywords if item.arg in names), None)
    if named is not None or position is None:
        return named
    before = call.args[: position + 1]
    return before[-1] if len(before) > position and not any(isinstance(item, ast.Starred) for item in before) else None
