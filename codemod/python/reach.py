"""Which classes and functions of the project a piece of code uses, directly or through others.

By name alone: a name that is read counts as used. What is built from a string (a registry, a class path in YAML) is not
seen.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Iterable, Iterator

from ..source.child_fields import within
from ..source.project import Project
from ..source.slim_nodes import is_read
from .names import Binding, ModuleNames, attribute_chain, definition_named, definition_of, root_name

MAX_PARTS, MAX_MODULES = 300, 40
"""How many definitions are followed, in how many files, before the rest is left out: the nearest come first."""


class Reached:
    """The definitions that some code uses, that code itself included; searched as far as somebody asks."""

    def __init__(self, project: Project, starts: Iterable[tuple[ModuleNames, ast.AST]]) -> None:
        """Use `reached`."""
        self._project = project
        self._waiting = deque(starts)
        self._parts: dict[ast.AST, ModuleNames] = {}
        self._modules: dict[ModuleNames, None] = {}
        self._positions: set[tuple[str, type, int, int]] = set()

    @property
    def parts(self) -> dict[ast.AST, ModuleNames]:
        """A module, class, function, or the value of a module's constant, with the module it stands in."""
        while self._goes_on():
            pass
        return self._parts

    @property
    def classes(self) -> tuple[tuple[ModuleNames, ast.ClassDef], ...]:
        """The classes among the parts, those that stand inside a part included."""
        found = {
            node: module
            for part, module in self.parts.items()
            for node in ast.walk(part)
            if isinstance(node, ast.ClassDef)
        }
        return tuple((module, node) for node, module in found.items())

    @property
    def modules(self) -> tuple[ModuleNames, ...]:
        """The modules that hold the parts."""
        return tuple(dict.fromkeys(self.parts.values()))

    def enters(self, module: ModuleNames) -> bool:
        """Whether a part stands in ``module``."""
        while module not in self._modules:
            if not self._goes_on():
                return False
        return True

    def holds(self, module: ModuleNames, node: ast.AST) -> bool:
        """Whether ``node`` is inside one of the parts; its module may have been parsed a second time."""
        asked = {_position(module, part) for part in (node, *module.ancestors(node))}
        while asked.isdisjoint(self._positions):
            if not self._goes_on():
                return False
        return True

    def _goes_on(self) -> bool:
        """Take one more part; False where there is none, or there are too many."""
        while self._waiting and len(self._parts) < MAX_PARTS:
            module, node = self._waiting[0]
            if node in self._parts or (module not in self._modules and len(self._modules) >= MAX_MODULES):
                self._waiting.popleft()
                continue
            used = self._project.memo(_used, (module, node))
            self._waiting.popleft()
            self._waiting.extend(used)
            self._parts[node] = module
            self._modules[module] = None
            self._positions.add(_position(module, node))
            return True
        return False


def _position(module: ModuleNames, node: ast.AST) -> tuple[str, type, int, int]:
    row, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    return module.document.path, type(node), row, column


def reached(project: Project, starts: Iterable[tuple[ModuleNames, ast.AST]]) -> Reached:
    """What ``starts`` (nodes with their modules) use, over any number of steps."""
    return Reached(project, starts)


def _used(project: Project, asked: tuple[ModuleNames, ast.AST]) -> list[tuple[ModuleNames, ast.AST]]:
    module, part = asked
    can_be_global = module.of_parts(_global_names)
    found: list[tuple[ModuleNames, ast.AST]] = []
    seen: set[tuple[str, ...]] = set()
    for node in within(part):
        if not is_read(node) or (not module.star_imports and root_name(node) not in can_be_global):
            continue
        chain = tuple(attribute_chain(node) or ())
        if not chain or chain in seen:
            continue
        seen.add(chain)
        outer = [item for item in module.scope_of(node).lookup(chain[0]) if _may_be_global(item, module)]
        if outer or module.star_imports:
            found += _defined(project, module, node, outer)
    return found


def _global_names(module: ModuleNames) -> frozenset[str]:
    """The names that something binds for which `_may_be_global` holds."""
    return frozenset(item.name for item in module.all_bindings if _may_be_global(item, module))


def _may_be_global(binding: Binding, module: ModuleNames) -> bool:
    return binding.kind == "import" or module.is_of_module(binding.scope)


def _defined(
    project: Project, module: ModuleNames, node: ast.Name | ast.Attribute, bindings: Iterable[Binding]
) -> Iterator[tuple[ModuleNames, ast.AST]]:
    if isinstance(node, ast.Name):
        yield from ((module, found) for found in _nodes(bindings))
    imported = {item.qualified for item in bindings if item.kind == "import" and item.qualified}
    inner = (attribute_chain(node) or [])[1:]
    others = [".".join((name, *inner)) for name in sorted(imported)] if len(imported) > 1 else []
    named = (definition_named(project, name, module.path) for name in others)  # each in an arm of its own
    for defined in dict.fromkeys((definition_of(project, module, node), *named)):
        if defined is not None:
            other, name = defined
            yield from ((other, found) for found in _nodes(other.defined(name)))


def _nodes(bindings: Iterable[Binding]) -> Iterator[ast.AST]:
    for binding in bindings:
        if isinstance(binding.node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield binding.node
        elif binding.value is not None:
            yield binding.value
