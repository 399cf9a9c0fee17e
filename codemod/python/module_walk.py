"""One walk over the nodes of a module: the scopes and what is bound in them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ..source.module_paths import absolute_module
from ..source.slim_nodes import nodes_of, of_both
from .scopes import Binding, FunctionNode, Scope, add_binding, bind_names, bind_target, parameters_of

OpeningNode: TypeAlias = ast.ClassDef | FunctionNode | ast.Lambda
OPENING = frozenset(of_both(dict.fromkeys((ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))))
"""The nodes whose body is a scope of its own; decorators, defaults, annotations and bases belong to the outer one."""


class ModuleWalk:
    """What a walk over a module finds."""

    def __init__(self, tree: ast.Module, path: str) -> None:
        """``path`` is the module's file: what relative imports start from."""
        self.path = path
        self.module_scope = Scope(tree, None)
        self.scopes: dict[ast.AST, Scope] = {tree: self.module_scope}
        self.star_imports: list[str] = []
        self.global_names: list[tuple[Scope, str]] = []
        self.scope_at: dict[ast.AST, Scope] = {tree: self.module_scope}
        """Of statements, and of what binds or opens another in them; all else has that of what it is part of."""
        self._walk(nodes_of(tree))
        for scope, name in self.global_names:
            moved = scope.bindings.pop(name, [])
            self.module_scope.bindings.setdefault(name, []).extend(moved)

    def _walk(self, nodes: Iterable[Any]) -> None:
        scope_at, marked, top = self.scope_at, MARKED, self.module_scope.node
        for node in nodes:
            kind = node.__class__
            if kind in marked:
                above = node
                while (scope := scope_at.get(above)) is None:
                    above = getattr(above, "parent", top)
                scope_at[node] = scope
                if kind in OPENING:
                    self._open(node, scope)
                elif (bind := BINDERS.get(kind)) is not None:
                    bind(self, node, scope)

    def _open(self, node: OpeningNode, scope: Scope) -> None:
        inner = self.scopes[node] = Scope(node, scope)
        if isinstance(node, ast.ClassDef):
            add_binding(scope, Binding(node.name, "class", node, None, scope))
        else:
            for parameter in parameters_of(node):
                add_binding(inner, Binding(parameter.arg, "parameter", parameter, None, inner))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            add_binding(scope, Binding(node.name, "function", node, None, scope))
        self.scope_at.update(dict.fromkeys([node.body] if isinstance(node, ast.Lambda) else node.body, inner))


def _assign(walk: ModuleWalk, node: ast.Assign, scope: Scope) -> None:
    for target in node.targets:
        bind_target(target, node.value, node, scope)


def _annotated(walk: ModuleWalk, node: ast.AnnAssign, scope: Scope) -> None:
    if node.value is not None:
        bind_target(node.target, node.value, node, scope)


def _named(walk: ModuleWalk, node: ast.NamedExpr, scope: Scope) -> None:
    bind_target(node.target, node.value, node, scope.function)


def _augmented(walk: ModuleWalk, node: ast.AugAssign, scope: Scope) -> None:
    if isinstance(node.target, ast.Name):
        add_binding(scope, Binding(node.target.id, "augmented", node, None, scope))


def _loop(walk: ModuleWalk, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
    bind_names(node.target, "for", node, scope)


def _with(walk: ModuleWalk, node: ast.withitem, scope: Scope) -> None:
    if node.optional_vars is not None:
        bind_names(node.optional_vars, "with", node, scope)


def _except(walk: ModuleWalk, node: ast.ExceptHandler, scope: Scope) -> None:
    if node.name:
        add_binding(scope, Binding(node.name, "other", node, None, scope))


def _global(walk: ModuleWalk, node: ast.Global, scope: Scope) -> None:
    walk.global_names.extend((scope, name) for name in node.names)


def _import(walk: ModuleWalk, node: ast.Import, scope: Scope) -> None:
    for alias in node.names:
        name = alias.asname or alias.name.partition(".")[0]
        add_binding(scope, Binding(name, "import", node, None, scope, alias.name if alias.asname else name))


def _import_from(walk: ModuleWalk, node: ast.ImportFrom, scope: Scope) -> None:
    module = absolute_module(walk.path, node.module, node.level)
    for alias in node.names:
        if alias.name == "*":
            walk.star_imports.append(module)
        else:
            qualified = f"{module}.{alias.name}" if module else alias.name
            add_binding(scope, Binding(alias.asname or alias.name, "import", node, None, scope, qualified))


BINDERS: dict[type[ast.AST], Callable[[ModuleWalk, Any, Scope], None]] = of_both(
    {
        ast.Assign: _assign,
        ast.AnnAssign: _annotated,
        ast.NamedExpr: _named,
        ast.AugAssign: _augmented,
        ast.For: _loop,
        ast.AsyncFor: _loop,
        ast.comprehension: _loop,
        ast.withitem: _with,
        ast.ExceptHandler: _except,
        ast.Global: _global,
        ast.Import: _import,
        ast.ImportFrom: _import_from,
    }
)
"""What binds names without opening a scope."""
MARKED = frozenset({*of_both(dict.fromkeys(ast.stmt.__subclasses__())), *BINDERS, *OPENING})
"""The nodes that note their scope."""
