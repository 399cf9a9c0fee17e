"""Which argument of a call fills which parameter of a known signature."""

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
