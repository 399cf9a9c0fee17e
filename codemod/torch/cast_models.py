"""Where a file calls the object that it casts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.names import ModuleNames, root_name
from ..python.paths import function_of, loops, position
from ..python.scopes import text_of
from ..source.project import Project
from .weight_changes import may_change_back


def stays_cast(module: ModuleNames, cast: ast.Call) -> bool:
    """Whether nothing below ``cast`` in its function gives the object (a name or attribute) another dtype."""
    later = later_statements(module, cast)
    used = bool(later) or any(applied_at_once(module, cast))
    return used and not any(may_change_back(item, name) for name, items in later.items() for item in items)


def applications_of(project: Project, module: ModuleNames, cast: ast.Call) -> Iterator[tuple[str, ast.Call]]:
    """Where the file itself calls what ``cast`` casts, and which method (``forward`` for the object as a function)."""
    yield from applied_at_once(module, cast)
    for held in _held(module, cast):
        for name, call in project.memo(_calls_of_objects, module).get(ast.unparse(held), ()):
            if is_same_object(module, held, call) and not _runs_before(module, call, cast):
                yield name, call


def is_same_object(module: ModuleNames, held: ast.expr, call: ast.Call) -> bool:
    """Whether a name that reads alike where ``call`` stands is bound where the one of ``held`` is."""
    root, here, there = root_name(held), module.scope_of(held), module.scope_of(call)
    return here.enclosing_class is there.enclosing_class if root == "self" else here.lookup(root) is there.lookup(root)


def _runs_before(module: ModuleNames, call: ast.Call, cast: ast.Call) -> bool:
    """Whether a call comes before the cast in the same function, and no loop leads back to it."""
    same = module.scope_of(call).function is module.scope_of(cast).function
    return same and position(call) < position(cast) and set(loops(module, call)).isdisjoint(loops(module, cast))


def _calls_of_objects(_project: Project, module: ModuleNames) -> dict[str, list[tuple[str, ast.Call]]]:
    """What is called or whose method is called -> the methods and calls, ``forward`` for the object as a function."""
    found: dict[str, list[tuple[str, ast.Call]]] = {}
    for called, calls in module.calls_by_name.items():
        for call in calls:
            text = text_of(call.func)
            found.setdefault(text, []).append(("forward", call))
            if isinstance(call.func, ast.Attribute):
                found.setdefault(text.removesuffix(f".{called}"), []).append((called, call))
    return found


def applied_at_once(module: ModuleNames, cast: ast.Call) -> Iterator[tuple[str, ast.Call]]:
    """``Net().half()(x)`` and ``Net().half().encode(x)``."""
    parent = module.parents.get(cast)
    name = parent.attr if isinstance(parent, ast.Attribute) else "forward"
    called = parent if isinstance(parent, ast.Attribute) else cast
    call = module.parents.get(called)
    if isinstance(call, ast.Call) and call.func is called:
        yield name, call


def later_statements(module: ModuleNames, cast: ast.Call) -> dict[str, list[ast.stmt]]:
    """The statements below ``cast`` that mention what it casts, by each name that this has."""
    statement = module.statement_of(cast)
    return {
        name: [
            later
            for later in _statements_about(module, function_of(module, cast), name)
            if position(later) > position(statement)
        ]
        for name in map(ast.unparse, _held(module, cast))
    }


def _held(module: ModuleNames, cast: ast.Call) -> list[ast.expr]:
    """The names (attributes too) of the object that ``cast`` casts."""
    statement = module.statement_of(cast)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    held = [*targets, cast.func.value] if isinstance(cast.func, ast.Attribute) else targets
    return list({ast.unparse(item): item for item in held if isinstance(item, ast.Name | ast.Attribute)}.values())


def _statements_about(module: ModuleNames, function: ast.AST, name: str) -> list[ast.stmt]:
    """Every simple statement or loop head of ``function`` that mentions the model, in source order."""
    last = name.rpartition(".")[2]
    found = {
        module.statement_of(node)
        for node in ast.walk(function)
        if (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == last and ast.unparse(node) == name)
    }
    return sorted(found, key=position)
