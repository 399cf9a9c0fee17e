"""Answers as plain values and back, where they are made of parts of files and of data.

A part of a file is told by its class and its place in a statement at the top of the file, and found again while
that says the same. What counts by its identity is not kept: two who ask would no longer mean the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..flow.classes import ProjectClass
from ..python.callers import Callers, CallSite
from ..python.functions import FunctionTarget
from ..python.names import Binding, ModuleNames, Scope, names_of
from ..source.child_fields import within
from ..source.documents import Document
from ..source.looks import DEFINED, FILE
from ..source.project import Project
from ..source.slices import first_row, position, tops_of
from ..source.slim_nodes import ORIGINAL

MAX_PARTS = 2_000
"""Of one answer."""
_OBJECTS: dict[str, Any] = {kind.__name__: kind for kind in (FunctionTarget, CallSite, Callers, ProjectClass)}
"""Classes of which nobody asks whether two are the same object."""
_PLACE = re.compile(r"\.\w+:\d")
"""A file and a row in a text."""
_SEQUENCES: dict[type, str] = {tuple: "tuple", list: "list", set: "set", frozenset: "frozenset"}
_MAKERS: dict[str, Callable[[Any], Any]] = {name: kind for kind, name in _SEQUENCES.items()}


class Unkept(Exception):
    """A value that cannot be told in plain values, or a plain one that stands for nothing."""


class PlainValues:
    """Answers about one project, to plain values and back."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._places: dict[tuple[str, str, int], dict[tuple[object, ...], ast.AST | None]] = {}
        self._left = 0
        self._names: set[tuple[str, str, str]] = set()
        self._modules: set[str] = set()

    def plain(self, value: object) -> object:
        """Plain values for an answer; raises `Unkept`."""
        self._left = MAX_PARTS
        self._names.clear()
        self._modules.clear()
        return self._plain(value)

    def key(self, value: object) -> str:
        """A string for what is asked about; raises `Unkept`.

        Who is asked about a file, and about no part of it, may look at any.
        """
        found = repr(self.plain(value))
        parts = {path for _, path, _ in self._names}
        self._names.update((FILE, path, "") for path in self._modules - parts)
        return found

    def named(self, seen: int) -> int:
        """What rests on ``seen`` and on what the latest plain values named."""
        looks = self._project.looks
        for kind, path, name in sorted(self._names, key=lambda each: each[0] != FILE):
            whole = looks.bit(FILE, path)
            if not seen & whole:
                seen |= whole if kind == FILE else looks.bit(DEFINED, path, name)
        return seen

    def _plain(self, value: object) -> object:
        self._left -= 1
        if self._left < 0:
            raise Unkept
        if value is None or type(value) in (bool, int, float, str):
            if type(value) is str and _PLACE.search(value):  # rows change with what stands above
                raise Unkept
            return value
        kind = _SEQUENCES.get(type(value))
        if kind is not None:
            parts = [self._plain(each) for each in value]  # type: ignore[attr-defined]
            return [kind, *(sorted(parts, key=repr) if kind.endswith("set") else parts)]
        if isinstance(value, dict) and type(value) is dict:
            return ["dict", *([self._plain(name), self._plain(each)] for name, each in value.items())]
        return self._plain_object(value)

    def _plain_object(self, value: object) -> object:
        if isinstance(value, ast.AST):
            return self._place(value)
        if isinstance(value, ModuleNames):
            self._modules.add(value.path)
            return ["module", value.path]
        if isinstance(value, Document):
            self._names.add((FILE, value.path, ""))
            return ["document", value.path]
        if isinstance(value, Scope):
            return ["scope", self._place(value.node)]
        if isinstance(value, Binding):
            beside = value.scope.bindings.get(value.name, [])
            at = next((at for at, each in enumerate(beside) if each is value), None)
            if at is None:
                raise Unkept
            scope = value.scope
            if scope.parent is None and (path := getattr(scope.node, "file", None)):
                self._names.add((DEFINED, path, value.name))
                return ["binding", ["node", path, "Module"], value.name, at]
            return ["binding", self._place(scope.node), value.name, at]
        if type(value) not in _OBJECTS.values():
            raise Unkept
        made: Any = value
        return ["object", type(made).__name__, *(self._plain(getattr(made, each.name)) for each in fields(made))]

    def _place(self, node: ast.AST) -> list[object]:
        statement = top = node
        while (above := getattr(top, "parent", None)) is not None:
            if isinstance(above, ast.JoinedStr):  # before Python 3.12 several may have one place there
                raise Unkept
            statement, top = top, above
        path = getattr(top, "file", None)
        if not isinstance(top, ast.Module) or path is None:
            raise Unkept
        if node is top:
            self._names.add((FILE, path, ""))
            return ["node", path, "Module"]
        name, at = tops_of(top)[statement]
        self._names.add((DEFINED, path, name))
        if not hasattr(node, "lineno"):
            raise Unkept
        return ["node", path, ORIGINAL[type(node)].__name__, name, at, *position(node, first_row(statement))]

    def value(self, plain: Any) -> Any:
        """The answer that plain values stand for; raises `Unkept`."""
        try:
            return self._value(plain)
        except (TypeError, ValueError, LookupError, AttributeError, ImportError, RecursionError):
            raise Unkept from None

    def _value(self, plain: Any) -> Any:
        if not isinstance(plain, list):
            return plain
        kind, *parts = plain
        if kind in _MAKERS:
            return _MAKERS[kind](map(self._value, parts))
        if kind == "dict":
            return {self._value(name): self._value(each) for name, each in parts}
        if kind == "node":
            return self._node(*parts)
        if kind == "module":
            return self._module(*parts)
        if kind == "document":
            return self._module(*parts).document
        if kind == "scope":
            return self._scope(*parts)
        if kind == "binding":
            place, name, at = parts
            return self._scope(place).bindings[name][at]
        if kind != "object":
            raise Unkept
        return _OBJECTS[parts[0]](*map(self._value, parts[1:]))

    def _module(self, path: str) -> ModuleNames:
        document = self._project.document(path)
        if document is None:
            raise Unkept
        return names_of(self._project, document)

    def _scope(self, place: Any) -> Scope:
        return self._module(place[1]).scopes[self._value(place)]

    def _node(self, path: str, kind: str, name: str = "", at: int = 0, *place: int) -> ast.AST:
        module = self._module(path)
        if kind == "Module":
            return module.document.part
        places = self._places.get((path, name, at))
        if places is None:
            places = self._places[path, name, at] = {}
            tops = tops_of(module.document.part)
            (top,) = (each for each in tops if tops[each] == (name, at))
            row = first_row(top)
            for each in within(top):
                if hasattr(each, "lineno"):
                    stands = (ORIGINAL[type(each)].__name__, *position(each, row))
                    places[stands] = None if stands in places else each
        there = (kind, *place)
        found = places[there]
        if found is None:
            raise Unkept
        return found
