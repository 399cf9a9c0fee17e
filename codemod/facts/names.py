"""What a name means: scopes, bindings, import aliases, and the qualified name of an expression.

Flow-insensitive on purpose: a name bound twice keeps both bindings, and whoever asks sees both. A name that is
imported *and* defined in the same scope (a dummy class in ``except ImportError``) is ambiguous and reported as such.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ..documents import Document
from ..parsing import Unparsable
from ..project import Project

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode: TypeAlias = ast.Module | ast.ClassDef | FunctionNode | ast.Lambda

AttributeStore: TypeAlias = tuple[list[str] | None, ast.expr | None, ast.stmt]
"""The receiver (``["self"]``; None for a name in a class body, empty for no plain chain), the value where one
expression gives it, and the statement."""

MAX_ALIAS_HOPS = 8
"""How many re-exports and aliases are followed before a name counts as unknown."""


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """One place that gives a name its value. ``value`` is None where no single expression does (loops, imports)."""

    name: str
    kind: str
    """``assign``, ``augmented``, ``parameter``, ``import``, ``function``, ``class``, ``with``, ``for``, ``unpacked``,
    ``global`` or ``other``."""
    node: ast.AST
    value: ast.expr | None
    scope: Scope
    qualified: str | None = None
    """For imports: the dotted name that is bound."""


@dataclass(eq=False, slots=True)
class Scope:
    """A module, class, function or lambda, with the names bound directly in it."""

    node: ScopeNode
    parent: Scope | None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)

    def lookup(self, name: str) -> list[Binding]:
        """Bindings of ``name`` seen from here, by Python's scope rules (class bodies do not enclose methods)."""
        scope: Scope | None = self
        while scope is not None:
            visible = scope is self or not isinstance(scope.node, ast.ClassDef)
            if visible and name in scope.bindings:
                return scope.bindings[name]
            scope = scope.parent
        return []

    @property
    def function(self) -> Scope:
        """The nearest enclosing function or module scope (itself included)."""
        scope = self
        while isinstance(scope.node, ast.ClassDef | ast.Lambda) and scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def enclosing_class(self) -> Scope | None:
        """The nearest class scope around this one, or None."""
        scope: Scope | None = self
        while scope is not None and not isinstance(scope.node, ast.ClassDef):
            scope = scope.parent
        return scope


class ModuleNames:
    """Scopes, parents and imports of one Python document."""

    def __init__(self, document: Document) -> None:
        self.document = document
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

    @cached_property
    def calls(self) -> list[ast.Call]:
        """All calls of the document, in source order."""
        found = [node for node in self.nodes if isinstance(node, ast.Call)]
        return sorted(found, key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """The calls of the document by the last name of what is called (``c`` for ``a.b.c()``), in source order."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            func = call.func
            name = func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""
            found.setdefault(name, []).append(call)
        return found

    @cached_property
    def attribute_stores(self) -> dict[str, list[AttributeStore]]:
        """What is assigned to attributes, by attribute name, in source order.

        Assignments in a class body count too, as they give the attribute its first value.
        """
        found: dict[str, list[AttributeStore]] = {}
        for node in self.nodes:
            if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
                continue
            in_class = isinstance(self.scope_of(node).node, ast.ClassDef)
            for target, value in _stored(node):
                if isinstance(target, ast.Attribute):
                    found.setdefault(target.attr, []).append((attribute_chain(target.value) or [], value, node))
                elif in_class and isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append((None, value, node))
        for stores in found.values():
            stores.sort(key=lambda store: store[2].lineno)
        return found

    @cached_property
    def name_loads(self) -> dict[str, list[ast.Name]]:
        """Every read of a plain name, by name."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def attribute_loads(self) -> dict[str, list[ast.Attribute]]:
        """Every read of an attribute, by the attribute's name."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, []).append(node)
        return found

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
                for child in _children(node):
                    self.parents[child] = node
                    stack.append((child, scope))
                continue
            inner = self._open_scope(node, scope)
            self._bind(node, scope, globals_of)
            inside = _body_of(node) if inner is not scope else set()
            for child in _children(node):
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
                _add(inner, Binding(parameter.arg, "parameter", parameter, None, inner))
        return inner

    def _bind(self, node: ast.AST, scope: Scope, globals_of: list[tuple[Scope, str]]) -> None:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                _bind_target(target, node.value, node, scope)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            if node.value is not None:
                _bind_target(
                    node.target, node.value, node, scope.function if isinstance(node, ast.NamedExpr) else scope
                )
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                _add(scope, Binding(node.target.id, "augmented", node, None, scope))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            _add(scope, Binding(node.name, "function", node, None, scope))
        elif isinstance(node, ast.ClassDef):
            _add(scope, Binding(node.name, "class", node, None, scope))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._bind_import(node, scope)
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            _bind_names(node.target, "for", node, scope)
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            _bind_names(node.optional_vars, "with", node, scope)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            _add(scope, Binding(node.name, "other", node, None, scope))
        elif isinstance(node, ast.Global):
            globals_of.extend((scope, name) for name in node.names)

    def _bind_import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                target = alias.name if alias.asname else name
                _add(scope, Binding(name, "import", node, None, scope, target))
            return
        module = absolute_module(self.document.path, node.module, node.level)
        for alias in node.names:
            if alias.name == "*":
                self.star_imports.append(module)
            else:
                name = alias.asname or alias.name
                _add(
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
    qualified, importer = _resolved(project, module, node)
    if qualified is None or qualified.startswith("torch."):
        return None
    module_name, _, name = qualified.rpartition(".")
    document = project_module(project, module_name, importer)
    return (names_of(project, document), name) if document is not None else None


def _resolved(project: Project, module: ModuleNames, node: ast.AST) -> tuple[str | None, str]:
    """The qualified name behind all re-exports, and the file whose import names it so."""
    qualified, importer = module.qualified(node), module.document.path
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
    document = project_module(project, module_name, importer)
    if document is None:
        return None
    bindings = names_of(project, document).module_scope.lookup(attribute)
    imports = [binding.qualified for binding in bindings if binding.kind == "import" and binding.qualified]
    if not imports or len(imports) != len(bindings):
        return None
    same_name = {name.rpartition(".")[2] for name in imports if name.startswith("torch.")}
    of_torch = len(same_name) == 1 and all(name.startswith("torch.") for name in imports)
    return (imports[0], document.path) if len(imports) == 1 or of_torch else None


def project_module(project: Project, module_name: str, importer: str = "") -> Document | None:
    """The project's own document for a dotted module name, or None (third party, missing, unparsable).

    ``importer`` is the path of the file that names the module; which file is meant can depend on it.
    """
    path = project.python_path(module_name, importer) if module_name else None
    document = project.document(path) if path else None
    if document is None:
        return None
    try:
        document.tree  # noqa: B018 - parsing is what is asked for
    except Unparsable:
        return None
    return document


def absolute_module(path: str, module: str | None, level: int) -> str:
    """Dotted module of ``from <level dots><module> import``, seen from the file ``path``; root-relative."""
    if not level:
        return module or ""
    package = path.removesuffix(".py").split("/")[:-1]
    package = package[: len(package) - (level - 1)] if level > 1 else package
    return ".".join([*package, *([module] if module else [])])


def attribute_chain(node: ast.AST) -> list[str] | None:
    """``["a", "b", "c"]`` for the expression ``a.b.c``; None for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return [node.id, *reversed(parts)]


def parameters_of(node: FunctionNode | ast.Lambda) -> list[ast.arg]:
    """All parameters in order, ``*args`` and ``**kwargs`` included."""
    arguments = node.args
    variadic = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *variadic]


BINDING_NODES = (
    ast.Assign,
    ast.AnnAssign,
    ast.NamedExpr,
    ast.AugAssign,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Lambda,
    ast.Import,
    ast.ImportFrom,
    ast.For,
    ast.AsyncFor,
    ast.comprehension,
    ast.withitem,
    ast.ExceptHandler,
    ast.Global,
)


def _children(node: ast.AST) -> list[ast.AST]:
    """The child nodes, last one first; contexts and operators, which carry nothing, are left out."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found += [item for item in value if isinstance(item, ast.AST) and not isinstance(item, ast.cmpop)]
        elif isinstance(value, ast.AST) and not isinstance(value, EMPTY_NODES):
            found.append(value)
    found.reverse()
    return found


EMPTY_NODES = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop)


def _body_of(owner: ast.AST) -> set[ast.AST]:
    """The children evaluated inside the scope: decorators, defaults, annotations and bases belong to the outer one."""
    if isinstance(owner, ast.Lambda):
        return {owner.body}
    return set(owner.body) if isinstance(owner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else set()


def _bind_target(target: ast.expr, value: ast.expr, node: ast.AST, scope: Scope) -> None:
    if isinstance(target, ast.Name):
        _add(scope, Binding(target.id, "assign", node, value, scope))
    elif isinstance(target, ast.Tuple | ast.List):
        same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
        if same and not any(isinstance(element, ast.Starred) for element in target.elts):
            for element, part in zip(target.elts, value.elts, strict=True):  # type: ignore[attr-defined]
                _bind_target(element, part, node, scope)
        else:
            _bind_names(target, "unpacked", node, scope)


def _stored(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """The single targets a statement assigns to, each with its value where one expression is its value."""
    if isinstance(statement, ast.Assign):
        for target in statement.targets:
            if not isinstance(target, ast.Tuple | ast.List):
                yield target, statement.value
                continue
            values = statement.value.elts if isinstance(statement.value, ast.Tuple | ast.List) else []
            paired = len(values) == len(target.elts) and not any(isinstance(item, ast.Starred) for item in target.elts)
            for index, element in enumerate(target.elts):
                yield element, values[index] if paired else None
    elif isinstance(statement, ast.AnnAssign):
        if statement.value is not None:
            yield statement.target, statement.value
    elif isinstance(statement, ast.AugAssign | ast.For | ast.AsyncFor):
        yield statement.target, None


def _bind_names(target: ast.expr, kind: str, node: ast.AST, scope: Scope) -> None:
    for child in ast.walk(target):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            _add(scope, Binding(child.id, kind, node, None, scope))


def _add(scope: Scope, binding: Binding) -> None:
    scope.bindings.setdefault(binding.name, []).append(binding)
