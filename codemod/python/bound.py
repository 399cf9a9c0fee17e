"""Whether a name certainly has a value where new code would read it: on every path, whatever the run's options are."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator, Sequence

from .exits import after, before
from .lost import is_called_early, is_deleted, may_change
from .names import Binding, FunctionNode, ModuleNames
from .paths import guard_facts, leaving_statement, position

BUILTINS = frozenset(dir(builtins))
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def is_bound_at(module: ModuleNames, name: str, node: ast.AST) -> bool:
    """Whether ``name`` has a value whenever ``node`` runs; code inside a function runs when its module is complete."""
    bindings = module.scope_of(node).lookup(name)
    if not bindings:
        return name in BUILTINS
    owner = bindings[0].scope.node
    if is_deleted(module, name, node, owner) or all(isinstance(item.node, ast.ExceptHandler) for item in bindings):
        return False
    if any(item.kind == "parameter" for item in bindings):
        return True
    if _is_bound_around(module, name, node, owner):
        return not _is_too_early(module, bindings, node)
    return bindings[0].scope is module.scope_of(node) and any(
        _is_bound_under_the_same_test(module, name, item.node, node)
        for item in bindings
        if isinstance(item.node, ast.stmt)
    )


def _is_too_early(module: ModuleNames, bindings: Sequence[Binding], node: ast.AST) -> bool:
    """Whether the module itself calls the function around ``node`` before it gives the name its value."""
    if not module.is_of_module(bindings[0].scope) or module.is_of_module(module.scope_of(node).function):
        return False
    if any(item.kind in ("import", "function", "class") for item in bindings):
        return False
    return is_called_early(module, node, bindings[0].node)


def _is_bound_under_the_same_test(module: ModuleNames, name: str, statement: ast.stmt, node: ast.AST) -> bool:
    facts = guard_facts(module, statement)
    return (
        position(statement) < position(node)
        and _assigns(module, statement, name)
        and _is_certain_under(module, statement, node)
        and facts <= guard_facts(module, node)
        and not may_change(module, (text for text, _ in facts), statement, node)
    )


def is_set_at(module: ModuleNames, attribute: str, node: ast.AST) -> bool:
    """Whether ``attribute`` (``self.dtype``) certainly was given a value above ``node`` in the same function."""
    owner = module.scope_of(node).function.node
    return _is_bound_around(module, attribute, node, owner) and not is_deleted(module, attribute, node, owner)


def always_sets(module: ModuleNames, owner: ast.AST, name: str) -> bool:
    """Whether the body of a function or class, once it has run, certainly gave ``name`` (or ``self.name``) a value."""
    return _assign(module, getattr(owner, "body", ()), name)


def is_replaced(module: ModuleNames, statement: ast.stmt, name: str) -> bool:
    """Whether the value that ``statement`` gives ``name`` is certainly replaced before anything can read it."""
    child: ast.AST = statement
    for parent in module.ancestors(statement):
        for below in after(parent, child):
            names = (item for item in ast.walk(below) if isinstance(item, ast.Name) and item.id == name)
            if any(isinstance(item.ctx, ast.Load) for item in names):
                return False
            if _assigns(module, below, name):
                return True
        if not isinstance(parent, ast.If | ast.With | ast.AsyncWith):
            return False
        child = parent
    return False


def _is_certain_under(module: ModuleNames, statement: ast.AST, node: ast.AST) -> bool:
    """Whether only tests stand between a statement and the block that ``node`` is in as well."""
    around = set(module.ancestors(node))
    for parent in module.ancestors(statement):
        if parent in around:
            return True
        if not isinstance(parent, ast.If | ast.With | ast.AsyncWith):
            return False
    return False


def _is_bound_around(module: ModuleNames, name: str, node: ast.AST, owner: ast.AST) -> bool:
    """Whether a statement before ``node``, in a block around it, or all of the scope it only reads, gives the value."""
    child, runs_later = node, False
    for parent in module.ancestors(node):
        if any(_binds(target, name) for target in _targets_around(parent, child)):
            return True
        above = before(parent, child)
        if isinstance(parent, ast.Try) and child in parent.orelse:
            above += parent.body
        if _assign(module, above, name):
            return True
        if parent is owner:
            return runs_later and _assign(module, getattr(owner, "body", ()), name)
        runs_later = runs_later or isinstance(parent, FunctionNode)
        child = parent
    return False


def _targets_around(parent: ast.AST, child: ast.AST) -> Iterator[ast.expr | None]:
    """What a loop, a ``with`` or a comprehension gives a value before it runs ``child``."""
    if isinstance(parent, ast.For | ast.AsyncFor) and child in parent.body:
        yield parent.target
    elif isinstance(parent, ast.With | ast.AsyncWith) and child in parent.body:
        yield from (item.optional_vars for item in parent.items)
    elif isinstance(parent, COMPREHENSIONS) and child not in parent.generators:
        yield from (item.target for item in parent.generators)


def _assign(module: ModuleNames, block: Iterable[ast.AST], name: str) -> bool:
    """Whether running past the statements of ``block`` certainly gives ``name`` a value."""
    return any(_assigns(module, statement, name) for statement in block)


def _assigns(module: ModuleNames, statement: ast.AST, name: str) -> bool:
    if isinstance(statement, ast.Assign):
        return any(_binds(target, name) for target in statement.targets)
    if isinstance(statement, ast.AnnAssign):
        return statement.value is not None and _binds(statement.target, name)
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return statement.name == name
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return any((item.asname or item.name.partition(".")[0]) == name for item in statement.names)
    if isinstance(statement, ast.If):
        return all(_ends_bound(module, arm, name) for arm in (statement.body, statement.orelse))
    if isinstance(statement, ast.With | ast.AsyncWith):
        entered = any(_binds(item.optional_vars, name) for item in statement.items)
        return entered or _assign(module, statement.body, name)
    if isinstance(statement, ast.Try):
        arms = [[*statement.body, *statement.orelse], *(handler.body for handler in statement.handlers)]
        every = all(_ends_bound(module, arm, name) for arm in arms)
        return every or _assign(module, statement.finalbody, name)
    return False


def _ends_bound(module: ModuleNames, block: Sequence[ast.stmt], name: str) -> bool:
    return _assign(module, block, name) or leaving_statement(module, block) is not None


def _binds(target: ast.expr | None, name: str) -> bool:
    parts = ast.walk(target) if target is not None else ()
    stored = [item for item in parts if isinstance(item, ast.Name | ast.Attribute) and isinstance(item.ctx, ast.Store)]
    return any(ast.unparse(item) == name for item in stored)
