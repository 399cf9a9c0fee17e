"""What a module holds of each kind and name: made in one walk when first asked for, then looked up by every rule."""

from __future__ import annotations

import ast
import sys
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, cast

from ..source.documents import Document
from ..source.slim_nodes import ORIGINAL, nodes_of, of_both
from .editing import Editable
from .exits import blocks_of
from .scopes import AttributeStore, FunctionNode, Scope, attribute_chain, last_name, stored_by

N = TypeVar("N", bound=ast.AST)
T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

Name: TypeAlias = "tuple[str, Scope | None]"
"""A variable of one scope, or an attribute of one class; see `Indexed.name_at`."""
HOLDING: tuple[type[ast.AST], ...] = (
    ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.If, ast.For, ast.AsyncFor, ast.While, ast.With,
    ast.AsyncWith, ast.Try, getattr(ast, "TryStar", ast.Try), ast.ExceptHandler, ast.match_case,
)  # fmt: skip
"""What holds blocks of statements."""
STORING = frozenset(of_both(dict.fromkeys((ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor))))
"""The statements that store into attributes."""


class _Once:
    """A property of a module that is computed once, without a note of what is looked at for it.

    It is kept under its own name, where it is found from then on before this class is asked.
    """

    def __init__(self, compute: Callable[[Any], Any]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        known = module.__dict__.get(self._name)
        if known is None:
            known = module.__dict__[self._name] = module.document.unnoted(lambda: self._compute(module))
        return known


class _Whole(_Once):
    def __get__(self, module: Any, owner: type) -> Any:
        if module is None:
            return self
        module.document.note()
        known = module.__dict__.get(self._name)  # this class is asked each time, as it has `__set__`
        return super().__get__(module, owner) if known is None else known

    def __set__(self, module: object, value: object) -> None:
        raise AttributeError(self._name)


class ByPart(dict[K, V]):
    """What is in the parts of a file by these: who has a part rests on what is written there already.

    What belongs to the module, and what is gone through, is of the whole file.
    """

    def __init__(self, document: Document, found: Mapping[K, V]) -> None:
        super().__init__(found)
        self._document = document

    def _note(self, key: Any) -> None:
        if isinstance(key[0] if key.__class__ is tuple else key, ast.Module):
            self._document.note()

    def get(self, key: Any, other: Any = None) -> Any:
        self._note(key)
        return super().get(key, other)

    def __getitem__(self, key: K) -> V:
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[K]:
        self._document.note()
        return super().__iter__()

    def items(self) -> Any:
        self._document.note()
        return super().items()

    def keys(self) -> Any:
        self._document.note()
        return super().keys()

    def values(self) -> Any:
        self._document.note()
        return super().values()


def whole(compute: Callable[[Any], T]) -> T:
    """A property that is computed once, of which who asks rests on the whole file."""
    return cast(T, _Whole(compute))


def by_part(compute: Callable[[Any], T]) -> T:
    """A property that is computed once, of which who has a part of the file looks only up what is known of this."""
    return cast(T, _Once(compute))


class Indexed(Editable):
    """The nodes of one Python document by class, by name, and by the function they run in."""

    _tree: ast.Module
    scopes: dict[ast.AST, Scope]

    @property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the module."""
        self.document.note()
        return nodes_of(self._tree)

    @abstractmethod
    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated."""

    @by_part
    def _by_type(self) -> dict[type[ast.AST], list[Any]]:
        found: dict[type[ast.AST], list[Any]] = defaultdict(list)
        originals = ORIGINAL
        for node in self.nodes:
            found[originals[node.__class__]].append(node)
        return dict(found)

    def of_type(self, kind: type[N]) -> list[N]:
        """The nodes of one class of ``ast``, in the order of `nodes`: who looks for a kind of node walks no others."""
        self.document.note()
        return self._by_type.get(kind, [])

    @whole
    def calls(self) -> list[ast.Call]:
        """All calls of the document, in source order."""
        return sorted(self.of_type(ast.Call), key=lambda node: (node.lineno, node.col_offset))

    @by_part
    def calls_by_function(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls that run as part of each function (or module) itself, in source order; lambdas belong to it."""
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(self.scope_of(call).function.node, []).append(call)
        return ByPart(self.document, found)

    @by_part
    def addresses(self) -> dict[ast.AST, str]:
        """Functions by the names around them and their own, and which of several with the same they are."""
        found: dict[ast.AST, str] = {}
        counts: dict[str, int] = {}
        for scope in self.scopes.values():
            names, above = [], scope
            while above.parent is not None:
                names.append(getattr(above.node, "name", ""))
                above = above.parent
            name = ".".join(reversed(names))
            number = counts.get(name, 0)
            found[scope.node], counts[name] = f"{name} {number}", number + 1
        return ByPart(self.document, found)

    @whole
    def by_address(self) -> dict[str, ast.AST]:
        """What has each of the `addresses`."""
        return {address: node for node, address in self.addresses.items()}

    @by_part
    def calls_inside(self) -> dict[tuple[ast.AST, str], list[ast.Call]]:
        """The calls of `calls_by_function`, by the function and the last name of what is called."""
        found: dict[tuple[ast.AST, str], list[ast.Call]] = {}
        for name, calls in self.calls_by_name.items():
            for call in calls:
                found.setdefault((self.scope_of(call).function.node, name), []).append(call)
        return ByPart(self.document, found)

    @whole
    def contexts_by_name(self) -> dict[Name, list[tuple[ast.With | ast.AsyncWith, ast.expr]]]:
        """What ``with`` statements enter, by its name or that of what is called for it, in source order."""
        found: dict[Name, list[tuple[ast.With | ast.AsyncWith, ast.expr]]] = {}
        for node in self.nodes:
            if isinstance(node, ast.With | ast.AsyncWith):
                for context in (item.context_expr for item in node.items):
                    name = self.name_at(context.func if isinstance(context, ast.Call) else context)
                    if name is not None:
                        found.setdefault(name, []).append((node, context))
        return found

    def name_at(self, node: ast.expr) -> Name | None:
        """What a plain chain names there: its text, and the scope that binds the variable, or the class of ``self``."""
        chain = attribute_chain(node)
        if chain is None:
            return None
        if len(chain) > 1:
            return ".".join(chain), self.scope_of(node).enclosing_class
        bindings = self.scope_of(node).lookup(chain[0])
        return (chain[0], bindings[0].scope) if bindings else None

    @by_part
    def _returns(self) -> dict[ast.AST, list[ast.Return]]:
        found: dict[ast.AST, list[ast.Return]] = {}
        for node in reversed(self.of_type(ast.Return)):
            found.setdefault(self.scope_of(node).node, []).append(node)
        return {owner: sorted(nodes, key=lambda node: node.lineno) for owner, nodes in found.items()}

    def returns_of(self, function: FunctionNode) -> list[ast.Return]:
        """The ``return`` statements of a function, those of nested functions left out."""
        return self._returns.get(function, [])

    @by_part
    def _generators(self) -> frozenset[ast.AST]:
        yields = (*self.of_type(ast.Yield), *self.of_type(ast.YieldFrom))
        return frozenset(self.scope_of(node).node for node in yields)

    def is_generator(self, function: FunctionNode) -> bool:
        """Whether a call gives back something to iterate over (or to enter), not what the function returns."""
        return function in self._generators

    @whole
    def calls_by_name(self) -> dict[str, list[ast.Call]]:
        """The calls of the document by the last name of what is called (``c`` for ``a.b.c()``), in source order."""
        found: dict[str, list[ast.Call]] = {}
        for call in self.calls:
            func = call.func
            name = last_name(func)
            found.setdefault(name, []).append(call)
        return found

    @by_part
    def tests_above(self) -> dict[ast.stmt, tuple[list[ast.If | ast.Assert], int]]:
        """For a statement below an ``if`` or an ``assert`` of its block these of the block, and how many are above."""
        found: dict[ast.stmt, tuple[list[ast.If | ast.Assert], int]] = {}
        for kind in HOLDING:
            for holder in self.of_type(kind):
                for block in blocks_of(holder):
                    tests: list[ast.If | ast.Assert] = []
                    for statement in block:
                        if tests:
                            found[statement] = tests, len(tests)
                        if isinstance(statement, ast.If | ast.Assert):
                            tests.append(statement)
        return found

    @whole
    def attribute_stores(self) -> dict[str, list[AttributeStore]]:
        """What is assigned to attributes, by attribute name, in source order.

        Assignments in a class body count too, as they give the attribute its first value.
        """
        found: dict[str, list[AttributeStore]] = {}
        for node in (item for item in self.nodes if item.__class__ in STORING):
            assert isinstance(node, ast.stmt)
            in_class = isinstance(self.scope_of(node).node, ast.ClassDef)
            for target, value in stored_by(node):
                if isinstance(target, ast.Attribute):
                    found.setdefault(target.attr, []).append((attribute_chain(target.value) or [], value, node))
                elif in_class and isinstance(target, ast.Name):
                    found.setdefault(target.id, []).append((None, value, node))
        for stores in found.values():
            stores.sort(key=lambda store: store[2].lineno)
        return found

    @by_part
    def stores_by_class(self) -> dict[tuple[Scope, str], list[AttributeStore]]:
        """Of `attribute_stores` those of ``self`` and of class bodies, by class and attribute."""
        found: dict[tuple[Scope, str], list[AttributeStore]] = {}
        for name, stores in self.attribute_stores.items():
            for store in stores:
                owner = self.scope_of(store[2]).enclosing_class if store[0] in (None, ["self"]) else None
                if owner is not None:
                    found.setdefault((owner, name), []).append(store)
        return ByPart(self.document, found)

    @whole
    def name_loads(self) -> dict[str, list[ast.Name]]:
        """Every read of a plain name, by name."""
        found: dict[str, list[ast.Name]] = defaultdict(list)
        for node in self.of_type(ast.Name):
            if isinstance(node.ctx, ast.Load):
                found[node.id].append(node)
        return dict(found)

    @whole
    def attribute_loads(self) -> dict[str, list[ast.Attribute]]:
        """Every read of an attribute, by the attribute's name."""
        found: dict[str, list[ast.Attribute]] = defaultdict(list)
        for node in self.of_type(ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                found[node.attr].append(node)
        return dict(found)

    @whole
    def identifiers(self) -> frozenset[str]:
        """What the code names, in lower case: variables, attributes, arguments, definitions, imports, strings without
        spaces; comments and texts for people do not count."""
        found = {name.id for name in self.of_type(ast.Name)}
        found.update(item.attr for item in self.of_type(ast.Attribute))
        found.update(item.arg for item in self.of_type(ast.arg))
        found.update(item.arg or "" for item in self.of_type(ast.keyword))
        found.update(name or "" for item in self.of_type(ast.alias) for name in (item.name, item.asname))
        found.update(item.module or "" for item in self.of_type(ast.ImportFrom))
        found.update(item.name for item in self.of_type(ast.FunctionDef))
        found.update(item.name for item in self.of_type(ast.AsyncFunctionDef))
        found.update(item.name for item in self.of_type(ast.ClassDef))
        strings = (item.value for item in self.of_type(ast.Constant) if isinstance(item.value, str))
        found.update(text for text in strings if " " not in text)
        return frozenset(sys.intern(name.lower()) for name in found)  # files share most of their names

    def mentions(self, *words: str) -> bool:
        """Whether something that the code names holds one of the words (lower case)."""
        return any(word in self._all_identifiers for word in words)

    @whole
    def _all_identifiers(self) -> str:
        return "\n".join(sorted(self.identifiers))
