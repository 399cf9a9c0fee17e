"""What takes a value away again, or keeps it from being there: ``del``, tests that change, functions called early."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from .names import FunctionNode, ModuleNames, attribute_chain
from .paths import loops, position

PURE = ("len", "isinstance", "hasattr", "getattr", "bool", "int", "is_available", "lower", "get")
"""What a test may call and still come out the same when it is asked again."""


def is_deleted(module: ModuleNames, name: str, node: ast.AST, owner: ast.AST) -> bool:
    """Whether a ``del`` of ``name`` (``x``, ``self.x``) in the scope ``owner`` may run before ``node``."""
    last = name.rpartition(".")[2]
    for statement in module.of_type(ast.Delete):
        if module.scope_of(statement).function.node is not owner and name == last:
            continue
        deleted = (".".join(attribute_chain(target) or []) for target in statement.targets)
        if name in deleted and (name != last or _may_run_before(module, statement, node)):
            return True
    return False


def _may_run_before(module: ModuleNames, statement: ast.AST, node: ast.AST) -> bool:
    other_function = module.scope_of(statement).function is not module.scope_of(node).function
    together = set(loops(module, statement)) & set(loops(module, node))
    return other_function or bool(together) or position(statement) < position(node)


def may_change(module: ModuleNames, texts: Iterable[str], first: ast.AST, second: ast.AST) -> bool:
    """Whether what a test said at ``first`` may no longer hold at ``second``: something it reads is given a value."""
    for text in texts:
        test = ast.parse(text, mode="eval")
        for node in ast.walk(test):
            if isinstance(node, ast.Call) and (attribute_chain(node.func) or [""])[-1] not in PURE:
                return True
            if isinstance(node, ast.Name) and _is_given(module, node.id, first, second):
                return True
            if isinstance(node, ast.Attribute) and _is_stored(module, node, first, second):
                return True
    return False


def _is_given(module: ModuleNames, name: str, first: ast.AST, second: ast.AST) -> bool:
    bindings = module.scope_of(second).function.bindings.get(name, [])
    return any(position(first) < position(item.node) < position(second) for item in bindings)


def _is_stored(module: ModuleNames, node: ast.Attribute, first: ast.AST, second: ast.AST) -> bool:
    chain = attribute_chain(node.value) or []
    stores = module.attribute_stores.get(node.attr, [])
    return any(owner == chain and position(first) < position(item) < position(second) for owner, _, item in stores)


def is_called_early(module: ModuleNames, node: ast.AST, given: ast.AST) -> bool:
    """Whether the module calls the function around ``node`` before its own statement ``given`` has run."""
    names = _leading_to(module, node)
    loads = (
        item for name in names for item in (*module.name_loads.get(name, []), *module.attribute_loads.get(name, []))
    )
    return any(
        position(item) < position(given)
        and module.scope_of(item).function is module.module_scope
        and _is_called(module, item)
        for item in loads
    )


def _leading_to(module: ModuleNames, node: ast.AST) -> set[str]:
    """The names of the functions and classes around ``node``, and of those of the module that use them."""
    pending = [item.name for item in module.ancestors(node) if isinstance(item, FunctionNode | ast.ClassDef)]
    found: set[str] = set()
    while pending:
        name = pending.pop()
        if name in found:
            continue
        found.add(name)
        for load in module.name_loads.get(name, []):
            pending += [item.name for item in module.ancestors(load) if isinstance(item, FunctionNode | ast.ClassDef)]
    return found


def _is_called(module: ModuleNames, node: ast.AST) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, ast.Call) and parent.func is node
