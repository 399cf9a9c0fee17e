"""Which argument of a call fills which parameter of a known signature."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
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


def one_of(known: Mapping[str, Signature], names: Sequence[str | None], call: ast.AST | None) -> str | None:
    """Of the callables that a name can stand for the one that a call is written for; None where one is not known."""
    found = [name for name in names if name is not None and name in known]
    if not found or len(found) < len(names):
        return None
    given = call.args[:1] if isinstance(call, ast.Call) else []
    keywords = {item.arg for item in call.keywords if item.arg} if isinstance(call, ast.Call) else set[str]()
    of_device = any(isinstance(item, ast.Constant) and isinstance(item.value, str) for item in given)
    fitting = (name for name in found if keywords <= {*known[name].names})
    return next((name for name in fitting if not of_device or "device" in "".join(known[name].names[:1])), found[0])
