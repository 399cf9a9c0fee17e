"""``__enter__`` and ``__exit__`` of an autocast called by hand: what ``with`` would do, done wrong."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.python.bindings import reaching, self_stores
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import function_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import autocasts

_WHOLE_RUN = ("main", "run", "setup", "start")
"""Functions that may switch autocast on for the rest of the program."""


@dataclass(frozen=True, slots=True, eq=False)
class HandCall:
    """A call of ``__enter__`` or ``__exit__`` that is a mistake."""

    module: ModuleNames
    call: ast.Call
    crashes: bool
    """``__exit__()`` without its three arguments; else an ``__enter__`` that nothing undoes."""


def wrong_hand_calls(project: Project) -> Iterator[HandCall]:
    """Every wrong call by hand of an object that is certainly an autocast."""
    made: dict[ModuleNames, set[ast.AST]] = {}
    for item in autocasts(project):
        if item.call is not None and item.form in ("value", "statement"):
            made.setdefault(item.module, set()).add(item.call)
    for module, calls in made.items():
        for call in module.calls_by_name.get("__exit__", []):
            if not call.args and not call.keywords and _is_autocast(module, call, calls):
                yield HandCall(module, call, crashes=True)
        for call in module.calls_by_name.get("__enter__", []):
            if _is_autocast(module, call, calls) and _is_left_open(module, call):
                yield HandCall(module, call, crashes=False)


def _is_autocast(module: ModuleNames, call: ast.Call, made: set[ast.AST]) -> bool:
    """Whether all values that the receiver can have are autocasts."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if receiver in made:
        return True
    chain = attribute_chain(receiver) if receiver is not None else None
    scope = module.scope_of(call)
    values: list[ast.expr | None] = []
    if isinstance(receiver, ast.Name):
        values = [item.value for item in reaching(module, scope.lookup(receiver.id), receiver)]
    elif chain is not None and len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
        values = [value for value, _ in self_stores(module, scope.enclosing_class, chain[1])]
    return bool(values) and all(value in made for value in values)


def _is_left_open(module: ModuleNames, call: ast.Call) -> bool:
    """A local variable of an ordinary function that is entered and then never looked at again."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    function = function_of(module, call)
    if not isinstance(receiver, ast.Name) or not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    if any(word in function.name.lower() for word in _WHOLE_RUN):
        return False
    bindings = module.scope_of(receiver).lookup(receiver.id)
    if any(binding.scope.node is not function for binding in bindings):
        return False
    reads = [node for node in module.name_loads.get(receiver.id, []) if function_of(module, node) is function]
    return reads == [receiver]
