"""Whether an expression can be written at another place of the same file and means the same there."""

from __future__ import annotations

import ast

from .bindings import self_stores
from .bound import is_bound_at
from .names import ModuleNames, Scope


def means_the_same(module: ModuleNames, expression: ast.expr, node: ast.AST) -> bool:
    """Whether ``expression``, copied to ``node``, reads the same variables there and all of them have a value."""
    here, there = module.scope_of(expression), module.scope_of(node)
    for item in ast.walk(expression):
        if isinstance(item, ast.Lambda | ast.comprehension | ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(item, ast.Attribute) and isinstance(item.value, ast.Name) and item.value.id == "self":
            if not _same_attribute(module, item.attr, here, there):
                return False
        elif isinstance(item, ast.Name) and item.id != "self" and not _same_variable(module, item.id, here, node):
            return False
    return True


def _same_variable(module: ModuleNames, name: str, here: Scope, node: ast.AST) -> bool:
    mine, theirs = here.lookup(name), module.scope_of(node).lookup(name)
    return (mine is theirs or not (mine or theirs)) and is_bound_at(module, name, node)


def _same_attribute(module: ModuleNames, name: str, here: Scope, there: Scope) -> bool:
    owner = there.enclosing_class
    if owner is None or here.enclosing_class is not owner or not _has_self(there):
        return False
    return any(_is_early(module, statement) for _, statement in self_stores(module, owner, name))


def _has_self(scope: Scope) -> bool:
    return bool(scope.lookup("self"))


def _is_early(module: ModuleNames, statement: ast.stmt) -> bool:
    """Whether an attribute has its value from the start: from the class body or ``__init__``."""
    node = module.scope_of(statement).node
    return isinstance(node, ast.ClassDef) or getattr(node, "name", "") == "__init__"
