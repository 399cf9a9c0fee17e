"""Loaders that set parameters and buffers in a given dtype, and cast the integer ones too (or only these)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import Guard, calls_of, guards

_INTEGERS = ("torch.int", "torch.uint", "torch.bool", "torch.long")
_TESTS = ("is_floating_point", "is_complex")


@dataclass(frozen=True, slots=True, eq=False)
class BufferCast:
    """A cast that reaches integer buffers."""

    module: ModuleNames
    call: ast.Call
    message: str
    evidence: ast.AST
    why: str


def buffer_casts(module: ModuleNames) -> Iterator[BufferCast]:
    """Casts to a parameter ``dtype`` in functions that set buffers, where a test beside them shows the mistake."""
    for function in [node for node in module.scopes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]:
        if not _handles_buffers(function):
            continue
        casts = [call for call in calls_of(module, function) if _casts_to_parameter(module, call)]
        told = {call: _asked(module, call) for call in casts}
        careful = next((asked for asked in told.values() if asked is not None and asked[1]), None)
        for call, asked in told.items():
            if asked is not None and not asked[1]:
                message = "the test is upside down: only integer tensors are cast to the floating-point dtype"
                yield BufferCast(module, call, message, asked[0].test, "integers pass this test")
            elif asked is None and careful is not None:
                message = "integer and boolean buffers are cast to the floating-point dtype here"
                why = "the other cast of this function leaves them out"
                yield BufferCast(module, call, message, careful[0].test, why)


def _asked(module: ModuleNames, call: ast.Call) -> tuple[Guard, bool] | None:
    """The guard of a cast that asks for the kind of tensor; one that lets floating tensors pass first."""
    found = [asked for guard in guards(module, call) if (asked := _asks(guard)) is not None]
    return max(found, key=lambda asked: asked[1], default=None)


def _handles_buffers(function: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "_buffers" for node in ast.walk(function))


def _casts_to_parameter(module: ModuleNames, call: ast.Call) -> bool:
    """``x.to(dtype)`` with the function's own parameter ``dtype``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "to" or call.keywords or len(call.args) != 1:
        return False
    argument = call.args[0]
    bindings = module.scope_of(argument).lookup(argument.id) if isinstance(argument, ast.Name) else []
    named = isinstance(argument, ast.Name) and argument.id.endswith("dtype")
    return named and len(bindings) == 1 and bindings[0].kind == "parameter"


def _asks(guard: Guard) -> tuple[Guard, bool] | None:
    """The guard, and whether it lets only floating tensors (True) or only integers (False) pass; None for others."""
    test, holds = guard.test, guard.holds
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) and holds:
        found = (_asks(Guard(value, True)) for value in test.values)
        return next((item for item in found if item is not None), None)
    if not isinstance(test, ast.Call) or not isinstance(test.func, ast.Attribute):
        return None
    if test.func.attr in _TESTS:
        return guard, holds
    if test.func.attr != "startswith" or "dtype" not in ast.unparse(test.func.value) or not test.args:
        return None
    words = [item.value for item in ast.walk(test.args[0]) if isinstance(item, ast.Constant)]
    integer = bool(words) and all(isinstance(word, str) and word.startswith(_INTEGERS) for word in words)
    return (guard, not holds) if integer else None
