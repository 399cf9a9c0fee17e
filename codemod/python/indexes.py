"""What a module holds of each kind and name: made in one walk when first asked for, then looked up by every rule."""

from __future__ import annotations

import ast
from abc import abstractmethod
from functools import cached_property
from typing import TypeVar, cast

from .editing import Editable
from .scopes import AttributeStore, Scope, attribute_chain, stored_by

N = TypeVar("N", bound=ast.AST)

STORING = frozenset({ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor})
"""The statements that store into attributes."""


class Indexed(Editable):
    """The nodes of one Python document by class, by name, and by the function they run in."""

    nodes: list[ast.AST]

    @abstractmethod
    def scope_of(self, node: ast.AST) -> Scope:
        """The scope in which ``node`` is evaluated."""

    @cached_property
    def _by_type(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in self.nodes:
            found.setdefault(node.__class__, []).append(node)
        return found

    def of_type(self, kind: type[N]) -> list[N]:
        """The nodes of one class of ``ast``, in the order of `nodes`: who looks for a kind of node walks no others."""
        return cast("list[N]", self._by_type.get(kind, []))

    @cached_property
    def calls(self) -> list[ast.Call]:
        """All calls of the document, in source order."""
        return sorted(self.of_type(ast.Call), key=lambda node: (node.lineno, node.col_offset))

    @cached_property
    def calls_by_function(self) -> dict[ast.AST, list[ast.Call]]:
        """The calls that run as part of each function (or module) itself, in source order; lambdas belong to it."""
        found: dict[ast.AST, list[ast.Call]] = {}
        for call in self.calls:
            found.setdefault(self.scope_of(call).function.node, []).append(call)
        return found

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

    @cached_property
    def name_loads(self) -> dict[str, list[ast.Name]]:
        """Every read of a plain name, by name."""
        found: dict[str, list[ast.Name]] = {}
        for node in self.of_type(ast.Name):
            if isinstance(node.ctx, ast.Load):
                found.setdefault(node.id, []).append(node)
        return found

    @cached_property
    def attribute_loads(self) -> dict[str, list[ast.Attribute]]:
        """Every read of an attribute, by the attribute's name."""
        found: dict[str, list[ast.Attribute]] = {}
        for node in self.of_type(ast.Attribute):
            if isinstance(node.ctx, ast.Load):
                found.setdefault(node.attr, []).append(node)
        return found

    @cached_property
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
        return frozenset(map(str.lower, found))

    def mentions(self, *words: str) -> bool:
        """Whether something that the code names holds one of the words (lower case)."""
        return any(word in name for name in self.identifiers for word in words)
