"""What a name means: import aliases, the qualified name of an expression, re-exports through the project.

Flow-insensitive on purpose: a name bound twice keeps both bindings, and whoever asks sees both. A name that is
imported *and* defined in the same scope (a dummy class in ``except ImportError``) is ambiguous and reported as such.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from ..source.documents import Document
from ..source.project import Project
from ..source.slim_nodes import Parents
from .exits import before
from .indexes import ByPart, Indexed, by_part, whole
from .limits import MAX_ALIAS_HOPS
from .module_walk import ModuleWalk
from .scopes import (
    Binding,
    FunctionNode,
    Scope,
    attribute_chain,
    defaults_in,
    is_none,
    last_name,
    parameters_of,
    positional,
    root_name,
    string_of,
)

T = TypeVar("T")

__all__ = [
    "Binding",
    "FunctionNode",
    "ModuleNames",
    "Scope",
    "attribute_chain",
    "checked_modules",
    "defaults_in",
    "definition_named",
    "definition_of",
    "is_none",
    "last_name",
    "modules_at",
    "modules_with",
    "names_of",
    "parameters_of",
    "positional",
    "resolve",
    "root_name",
    "string_of",
]


class ModuleNames(Indexed):
    """Scopes, parents and imports of one Python document, with its nodes by kind and name (`Indexed`)."""

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._tree = tree = document.part
        walk = ModuleWalk(tree, document.path)
        self.parents, self.scopes = Parents(tree), ByPart(document, walk.scopes)
        self._module_scope, self.star_imports = walk.module_scope, walk.star_imports
        self._scope_at = walk.scope_at
        self._of_parts: dict[object, Any] = {}

    @property
    def tree(self) -> ast.Module:
        """The whole module."""
        return self.document.tree

    @property
    def module_scope(self) -> Scope:
        """The scope of the module's own statements."""
        self.document.note()
        return self._module_scope

    def of_parts(self, compute: Callable[[ModuleNames], T]) -> T:
        """``compute(self)``, computed once: what is told of parts of the file, each by nothing but what it says."""
        known = self._of_parts.get(compute, self)
        if known is self:
            known = self._of_parts[compute] = self.document.unnoted(lambda: compute(self))
        return known  # type: ignore[no-any-return]

    def defined(self, name: str) -> list[Binding]:
        """What binds a name at the top of the module."""
        self.document.note_defined(name)
        return self._module_scope.lookup(name)

    def is_of_module(self, scope: Scope) -> bool:
        """Whether a scope is that of the module's own statements."""
        return scope is self._module_scope

    @whole
    def imported_packages(self) -> frozenset[str]:
        """The packages that the module's own scope imports something from."""
        bindings = (item for group in self._module_scope.bindings.values() for item in group if item.kind == "import")
        return frozenset((item.qualified or "").partition(".")[0] for item in bindings)

    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated: that of what it is part of, unless it has its own."""
        known, above = self._scope_at, node
        while (found := known.get(above)) is None:
            above = getattr(above, "parent", self._tree)
        return found

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The parents of ``node``, innermost first."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that holds ``node``."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def bindings_of(self, node: ast.AST) -> list[Binding]:
        """What binds a name, as it is seen where ``node`` reads it; nothing for what is no name."""
        return self.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else []

    @property
    def all_bindings(self) -> Iterator[Binding]:
        """What binds names, in whichever scope."""
        return (item for scope in self.scopes.values() for group in scope.bindings.values() for item in group)

    @whole
    def imports(self) -> tuple[Binding, ...]:
        """What imports bind, in whichever scope."""
        return tuple(item for item in self.all_bindings if item.kind == "import")

    @by_part
    def _imported(self) -> frozenset[str]:
        """The names that an import binds anywhere in the module."""
        return frozenset(item.name for item in self.imports)

    @by_part
    def _class_names(self) -> frozenset[str]:
        """The names of all classes that the module defines, in whichever scope."""
        return frozenset(node.name for node in self.scopes if isinstance(node, ast.ClassDef))

    def may_be_class(self, node: ast.AST) -> bool:
        """Whether a chain begins with the name of a class that is defined or imported somewhere in the module."""
        return self.may_be_imported(node) or root_name(node) in self._class_names

    def may_be_imported(self, node: ast.AST) -> bool:
        """Whether a chain begins with a name that some import binds: most do not, and nothing else is looked at."""
        return root_name(node) in self._imported or bool(self.star_imports)

    def qualified(self, node: ast.AST) -> str | None:
        """Dotted name of a Name or Attribute chain with import aliases resolved; None when it is not an import.

        A name that is bound here by anything else than imports (a local class, a parameter) has no qualified name.
        """
        chain = attribute_chain(node) if self.may_be_imported(node) else None
        if chain is None:
            return None
        root = self._import_of(chain[0], node)
        return ".".join([root, *chain[1:]]) if root else None

    def _import_of(self, name: str, node: ast.AST) -> str | None:
        bindings = self.scope_of(node).lookup(name)
        imports = self.imports_seen(bindings, node)
        if imports:
            return imports[0].qualified
        if bindings:
            return None
        for module in self.star_imports:
            if name in STAR_EXPORTS.get(module, ()):
                return f"{module}.{name}"
        return None

    def imports_seen(self, bindings: list[Binding], node: ast.AST) -> list[Binding]:
        """The imports among ``bindings``: of several names the last one that runs above ``node`` in its own arm.

        ``except ImportError: from b import f; use(f)`` uses what the handler imports, and not what ``try`` does. What
        is imported further down may be what a function finds that is called later.
        """
        imports = [binding for binding in bindings if binding.kind == "import" and binding.qualified]
        if len({binding.qualified for binding in imports}) < 2:
            return imports
        path = [node, *self.ancestors(node)]
        line = getattr(node, "lineno", 0)
        above, here = [item for item in imports if self._runs_above(item.node, path)][-1:], self.scope_of(node).function
        below = [item for item in imports if item.scope.function is not here and getattr(item.node, "lineno", 0) > line]
        return [*above, *below] if above else imports

    def _runs_above(self, statement: ast.AST, path: list[ast.AST]) -> bool:
        """Whether whatever reaches the first node of ``path``, the others around it, came past ``statement``."""
        parent = self.parents.get(statement)
        if parent not in path[1:]:
            return False
        branch = path[path.index(parent) - 1]
        return statement in before(parent, branch)

    def is_ambiguous(self, node: ast.AST) -> bool:
        """Whether the root of ``node`` is bound both by an import and by something else in its scope."""
        chain = attribute_chain(node)
        if chain is None:
            return False
        bindings = self.scope_of(node).lookup(chain[0])
        imports = [item for item in bindings if item.kind == "import"]
        if not imports or len(bindings) < 2:
            return False
        targets = {item.qualified for item in imports}
        others = (item for item in bindings if item.kind != "import")
        return len(targets) > 1 or any(not self._stands_in(item, chain[0]) for item in others)

    def _stands_in(self, binding: Binding, name: str) -> bool:
        """``except ImportError: Trainer = None``: what stands in for a package that is not there, and cannot be called.

        torch may have another stand-in: nothing runs without it.
        """
        handler = next((item for item in self.ancestors(binding.node) if isinstance(item, ast.ExceptHandler)), None)
        missing = handler.type.id if handler is not None and isinstance(handler.type, ast.Name) else ""
        nothing = isinstance(binding.value, ast.Constant) and binding.value.value is None
        return missing in ("ImportError", "ModuleNotFoundError") and (nothing or name == STOOD_IN_FOR)


STOOD_IN_FOR = "torch"
"""The package that programs do without where it is missing."""
STAR_EXPORTS = {
    "torch.cuda.amp": ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
    "torch.amp": ("autocast", "GradScaler", "custom_fwd", "custom_bwd"),
    "torch.cpu.amp": ("autocast", "GradScaler"),
}
"""What ``from module import *`` binds (``__all__`` of PyTorch 2.13)."""


def names_of(project: Project, document: Document) -> ModuleNames:
    """The names of ``document``, computed once."""
    return document.part_fact(ModuleNames)


def modules_with(
    project: Project, *words: Iterable[str], where: Callable[[str], bool] | None = None
) -> Iterator[ModuleNames]:
    """The modules whose text holds words, as `Project.python_documents` is asked for them."""
    return (names_of(project, document) for document in project.python_documents(*words, where=where))


def checked_modules(
    project: Project, *words: Iterable[str], where: Callable[[str], bool] | None = None
) -> Iterator[ModuleNames]:
    """The same of those in which mistakes are looked for."""
    return (names_of(project, document) for document in project.checked_documents(*words, where=where))


def modules_at(project: Project, paths: Iterable[str]) -> Iterator[ModuleNames]:
    return (names_of(project, document) for document in project.python_documents_at(paths))


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
    return project.memo(_definition, (qualified, importer))


def _definition(project: Project, asked: tuple[str, str]) -> tuple[ModuleNames, str] | None:
    qualified, importer = asked
    module_name, _, name = qualified.rpartition(".")
    document = project.defining_module(module_name, importer, name)
    return (names_of(project, document), name) if document is not None else None


def _resolved(project: Project, module: ModuleNames, node: ast.AST) -> tuple[str | None, str]:
    """The qualified name behind all re-exports, and the file whose import names it so."""
    qualified, importer = module.qualified(node), module.document.path
    chain = attribute_chain(node) if qualified is None and module.star_imports else None
    if chain is not None and not module.scope_of(node).lookup(chain[0]):
        found = project.memo(_through_star, (module, chain[0], ()))
        qualified = ".".join([found[0], *chain[1:]]) if found is not None else None
    return _behind_re_exports(project, qualified, importer)


def _behind_re_exports(project: Project, qualified: str | None, importer: str) -> tuple[str | None, str]:
    if qualified is None or qualified.startswith("torch."):
        return qualified, importer
    return project.memo(_end_of_re_exports, (qualified, importer))


def _end_of_re_exports(project: Project, asked: tuple[str, str]) -> tuple[str, str]:
    qualified, importer = asked
    for _ in range(MAX_ALIAS_HOPS):
        further = None if qualified.startswith("torch.") else _through_project(project, qualified, importer)
        if further is None:
            break
        qualified, importer = further
    return qualified, importer


def _through_project(project: Project, qualified: str, importer: str) -> tuple[str, str] | None:
    module_name, _, attribute = qualified.rpartition(".")
    document = project.defining_module(module_name, importer, attribute)
    if document is None:
        return None
    other = names_of(project, document)
    bindings = other.defined(attribute)
    if not bindings:
        return project.memo(_through_star, (other, attribute, ())) if other.star_imports else None
    imports = [binding.qualified for binding in bindings if binding.kind == "import" and binding.qualified]
    if not imports or not all(binding.qualified or _is_stand_in(other, binding, bindings) for binding in bindings):
        return None
    same_name = {name.rpartition(".")[2] for name in imports if name.startswith("torch.")}
    of_torch = len(same_name) == 1 and all(name.startswith("torch.") for name in imports)
    return (imports[0], document.path) if len(imports) == 1 or of_torch else None


def _is_stand_in(module: ModuleNames, binding: Binding, bindings: Sequence[Binding]) -> bool:
    """``except ImportError: GradScaler = None``, or a class of that name, for what ``try`` imports from torch."""
    handlers = (item for item in module.ancestors(binding.node) if isinstance(item, ast.ExceptHandler))
    tried = [getattr(module.parents[item], "body", []) for item in handlers]
    imports = [item for item in bindings if (item.qualified or "").startswith("torch.")]
    return any(item.node in body for body in tried for item in imports)


def _through_star(project: Project, asked: tuple[ModuleNames, str, tuple[ModuleNames, ...]]) -> tuple[str, str] | None:
    """The module of the project whose ``from <module> import *`` brings a name into a module; some are left out."""
    module, attribute, above = asked
    path = module.document.path
    for star in module.star_imports:
        document = project.python_module(star, path)
        other = names_of(project, document) if document is not None and document.path != path else None
        if other is None or other in above:
            continue
        if other.defined(attribute) or _through_star(project, (other, attribute, (*above, module))):
            return f"{star}.{attribute}", path
    return None
