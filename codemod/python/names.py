"""What a name means: import aliases, the qualified name of an expression, re-exports through the project.

Flow-insensitive on purpose: a name bound twice keeps both bindings, and whoever asks sees both. A name that is
imported *and* defined in the same scope (a dummy class in ``except ImportError``) is ambiguous and reported as such.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from ..source.documents import Document
from ..source.module_paths import absolute_module
from ..source.project import Project
from .indexes import Indexed
from .limits import MAX_ALIAS_HOPS
from .scopes import (
    BINDING_NODES,
    Binding,
    FunctionNode,
    Scope,
    add_binding,
    attribute_chain,
    bind_names,
    bind_target,
    body_of,
    children_of,
    parameters_of,
)

__all__ = [
    "Binding",
    "FunctionNode",
    "ModuleNames",
    "Scope",
    "attribute_chain",
    "definition_named",
    "definition_of",
    "names_of",
    "parameters_of",
    "resolve",
]


class ModuleNames(Indexed):
    """Scopes, parents and imports of one Python document, with its nodes by kind and name (`Indexed`)."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self.tree = document.tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.scopes: dict[ast.AST, Scope] = {}
        self._scope_at: dict[ast.AST, Scope] = {}
        self.nodes: list[ast.AST] = []
        """Every node in source order of its parents (breadth first inside a parent)."""
        self.star_imports: list[str] = []
        self._walk()

    @cached_property
    def module_scope(self) -> Scope:
        return self.scopes[self.tree]

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated."""
        return self._scope_at.get(node, self.module_scope)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parents of ``node``, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds ``node``."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def qualified(self, node: ast.AST) -> str | None:
        """Dotted name of a Name or Attribute chain with import aliases resolved; None when it is not an import.

        A name that is bound here by anything else than imports (a local class, a parameter) has no qualified name.
        """
        chain = attribute_chain(node)
        if chain is None:
            return None
        root = self._import_of(chain[0], self.scope_of(node))
        return ".".join([root, *chain[1:]]) if root else None

    def _import_of(self, name: str, scope: Scope) -> str | None:
        bindings = scope.lookup(name)
        imports = [binding for binding in bindings if binding.kind == "import" and binding.qualified]
        if imports:
            return imports[0].qualified
        if bindings:
            return None
        for module in self.star_imports:
            if name in STAR_EXPORTS.get(module, ()):
                return f"{module}.{name}"
        return None

    def is_ambiguous(self, node: ast.AST) -> bool:
        """Whether the root of ``node`` is bound both by an import and by something else in its scope."""
        chain = attribute_chain(node)
        if chain is None:
            return False
        bindings = self.scope_of(node).lookup(chain[0])
        kinds = {"import" if binding.kind == "import" else "other" for binding in bindings}
        targets = {binding.qualified for binding in bindings if binding.kind == "import"}
        return len(kinds) > 1 or len(targets) > 1

    # --- construction -----------------------------------------------------------------------------------------------

    def _walk(self) -> None:
        self.scopes[self.tree] = Scope(self.tree, None)
        stack: list[tuple[ast.AST, Scope]] = [(self.tree, self.scopes[self.tree])]
        globals_of: list[tuple[Scope, str]] = []
        while stack:
            node, scope = stack.pop()
            self.nodes.append(node)
            self._scope_at[node] = scope
            if not isinstance(node, BINDING_NODES):
                for child in children_of(node):
                    self.parents[child] = node
                    stack.append((child, scope))
                continue
            inner = self._open_scope(node, scope)
            self._bind(node, scope, globals_of)
            inside = body_of(node) if inner is not scope else set()
            for child in children_of(node):
                self.parents[child] = node
                stack.append((child, inner if child in inside else scope))
        for scope, name in globals_of:
            moved = scope.bindings.pop(name, [])
            self.module_scope.bindings.setdefault(name, []).extend(moved)

    def _open_scope(self, node: ast.AST, scope: Scope) -> Scope:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return scope
        inner = self.scopes[node] = Scope(node, scope)
        if not isinstance(node, ast.ClassDef):
            for parameter in parameters_of(node):
                add_binding(inner, Binding(parameter.arg, "parameter", parameter, None, inner))
        return inner

    def _bind(self, node: ast.AST, scope: Scope, globals_of: list[tuple[Scope, str]]) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind_target(target, node.value, node, scope)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            if node.value is not None:
                bind_target(node.target, node.value, node, scope.function if isinstance(node, ast.NamedExpr) else scope)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                add_binding(scope, Binding(node.target.id, "augmented", node, None, scope))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            add_binding(scope, Binding(node.name, "function", node, None, scope))
        elif isinstance(node, ast.ClassDef):
            add_binding(scope, Binding(node.name, "class", node, None, scope))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._bind_import(node, scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            bind_names(node.target, "for", node, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            bind_names(node.optional_vars, "with", node, scope)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            add_binding(scope, Binding(node.name, "other", node, None, scope))
        elif isinstance(node, ast.Global):
            globals_of.extend((scope, name) for name in node.names)

    def _bind_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                target = alias.name if alias.asname else name
                add_binding(scope, Binding(name, "import", node, None, scope, target))
            return
        module = absolute_module(self.document.path, node.module, node.level)
        for alias in node.names:
            if alias.name == "*":
                self.star_imports.append(module)
            else:
                name = alias.asname or alias.name
                add_binding(
                    scope,
                    Binding(name, "import", node, None, scope, f"{module}.{alias.name}" if module else alias.name),
                )


STAR_EXPORTS = {
    "torch.cuda.amp": ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
    "torch.amp": ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
    "torch.cpu.amp": ("autocast", "GradScaler"),
}
"""What ``from module import *`` binds (``__all__`` of PyTorch 2.13)."""


def names_of(project: Project, document: Document) -> ModuleNames:
    """The names of ``document``, computed once."""
    return project.document_fact(ModuleNames, document)


def resolve(project: Project, module: ModuleNames, node: ast.AST) -> str | None:
    """Like ``ModuleNames.qualified``, and re-exports through the project's own modules are followed to their end."""
    return _resolved(project, module, node)[0]


def definition_of(project: Project, module: ModuleNames, node: ast.AST) -> tuple[ModuleNames, str] | None:
    """The project's module that defines what ``node`` names through imports, and the name it has there."""
    return _defined(project, *_resolved(project, module, node))


def definition_named(project: Project, qualified: str, importer: str) -> tuple[ModuleNames, str] | None:
    """Like `definition_of`, for a dotted name that the file ``importer`` imports."""
    return _defined(project, *_behind_re_exports(project, qualified, importer))


def _defined(project: Project, qualified: str | None, importer: str) -> tuple[ModuleNames, str] | None:
    if qualified is None or qualified.startswith("torch."):
        return None
    module_name, _, name = qualified.rpartition(".")
    document = project.python_module(module_name, importer)
    return (names_of(project, document), name) if document is not None else None


def _resolved(project: Project, module: ModuleNames, node: ast.AST) -> tuple[str | None, str]:
    """The qualified name behind all re-exports, and the file whose import names it so."""
    qualified, importer = module.qualified(node), module.document.path
    chain = attribute_chain(node) if qualified is None and module.star_imports else None
    if chain is not None and not module.scope_of(node).lookup(chain[0]):
        found = _through_star(project, module, chain[0])
        qualified = ".".join([found[0], *chain[1:]]) if found is not None else None
    return _behind_re_exports(project, qualified, importer)


def _behind_re_exports(project: Project, qualified: str | None, importer: str) -> tuple[str | None, str]:
    for _ in range(MAX_ALIAS_HOPS):
        if qualified is None or qualified.startswith("torch."):
            break
        further = _through_project(project, qualified, importer)
        if further is None:
            break
        qualified, importer = further
    return qualified, importer


def _through_project(project: Project, qualified: str, importer: str) -> tuple[str, str] | None:
    module_name, _, attribute = qualified.rpartition(".")
    document = project.python_module(module_name, importer)
    if document is None:
        return None
    other = names_of(project, document)
    bindings = other.module_scope.lookup(attribute)
    if not bindings:
        return _through_star(project, other, attribute)
    imports = [binding.qualified for binding in bindings if binding.kind == "import" and binding.qualified]
    if not imports or len(imports) != len(bindings):
        return None
    same_name = {name.rpartition(".")[2] for name in imports if name.startswith("torch.")}
    of_torch = len(same_name) == 1 and all(name.startswith("torch.") for name in imports)
    return (imports[0], document.path) if len(imports) == 1 or of_torch else None


def _through_star(project: Project, module: ModuleNames, attribute: str) -> tuple[str, str] | None:
    """The module of the project whose ``from <module> import *`` brings ``attribute`` into ``module``."""
    path = module.document.path
    for star in module.star_imports:
        document = project.python_module(star, path)
        other = names_of(project, document) if document is not None and document.path != path else None
        if other is not None and other.module_scope.lookup(attribute):
            return f"{star}.{attribute}", path
    return None
