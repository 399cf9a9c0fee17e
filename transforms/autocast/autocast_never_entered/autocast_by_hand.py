"""``__exit__`` of an autocast called by hand, without the arguments that ``with`` would pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.bindings import values_at
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import checked_autocasts


def exits_without_arguments(project: Project) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """Every ``__exit__()`` without its three arguments of an object that is certainly an autocast."""
    made: dict[ModuleNames, set[ast.AST]] = {}
    for item in checked_autocasts(project):
        if item.call is not None and item.form in ("value", "statement"):
            made.setdefault(item.module, set()).add(item.call)
    for module, calls in made.items():
        for call in module.calls_by_name.get("__exit__", []):
            if not call.args and not call.keywords and _is_autocast(module, call, calls):
                yield module, call


def _is_autocast(module: ModuleNames, call: ast.Call, made: set[ast.AST]) -> bool:
    """Whether all values that the receiver can have are autocasts."""
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
    if receiver in made:
        return True
    values = values_at(module, receiver) if receiver is not None else []
    return bool(values) and all(value in made for value in values)
