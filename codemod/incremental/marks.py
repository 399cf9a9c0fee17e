"""Marks of what facts say: two runs in which a fact has the same mark were told the same.

A part of a file is marked by the file's content and where it stands there, so whatever is said of a file that has
been changed since has another mark.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from types import FunctionType

from ..python.names import ModuleNames, Scope
from ..source.documents import Document
from ..source.slim_nodes import nodes_of
from ..trainers.reading.configs import ConfigFile


class _Unmarked(Exception):
    """Something of which nobody can say when it is the same."""


class Marks:
    """Marks values of one run."""

    def __init__(self, contents: Mapping[str, str]) -> None:
        """``contents`` are digests of the files."""
        self._contents = contents
        self._known: dict[int, tuple[bytes, object]] = {}
        """Marks by identity, and what keeps the identity."""
        self._places: dict[int, dict[int, int]] = {}

    def of(self, value: object) -> str | None:
        """The mark of a value; None where it holds what cannot be marked."""
        try:
            return self._mark(value).hex()
        except (_Unmarked, RecursionError):
            return None

    def _mark(self, value: object) -> bytes:
        if value is None or (isinstance(value, str | bytes | int | float) and not isinstance(value, Enum)):
            return repr((type(value).__name__, value)).encode("utf-8", "backslashreplace")
        known = self._known.get(id(value))
        if known is None:
            known = self._known[id(value)] = (blake2b(self._parts(value), digest_size=16).digest(), value)
        return known[0]

    def _parts(self, value: object) -> bytes:
        if isinstance(value, ast.AST):
            return self._of_node(value)
        if isinstance(value, Scope):
            return b"scope " + self._mark(value.node)
        if isinstance(value, ModuleNames | Document):
            path = value.document.path if isinstance(value, ModuleNames) else value.path
            return type(value).__name__.encode() + self._of_file(path)
        if isinstance(value, ConfigFile):
            parts = (value.name, value.kind, value.within, value.number)
            return b"config " + self._of_file(value.document.path) + self._mark(parts)
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name}".encode()
        name = type(value).__qualname__.encode()
        if isinstance(value, tuple | list):
            return b" ".join([name, *map(self._mark, value)])
        if isinstance(value, dict):
            return b" ".join([name, *(self._mark(part) for item in value.items() for part in item)])
        if isinstance(value, set | frozenset):
            return b" ".join([name, *sorted(map(self._mark, value))])
        if isinstance(value, FunctionType | type) and "<" not in value.__qualname__:
            return f"{value.__module__}.{value.__qualname__}".encode()
        if is_dataclass(value):
            return b" ".join([name, *(self._mark(getattr(value, each.name)) for each in fields(value))])
        raise _Unmarked

    def _of_file(self, path: str | None) -> bytes:
        content = self._contents.get(path or "")
        if not content:
            raise _Unmarked
        return f"{path} {content}".encode("utf-8", "backslashreplace")

    def _of_node(self, node: ast.AST) -> bytes:
        top: ast.AST = node
        while (above := getattr(top, "parent", None)) is not None:
            top = above
        if not isinstance(top, ast.Module):
            raise _Unmarked
        places = self._places.get(id(top))
        if places is None:
            places = self._places[id(top)] = {id(each): at for at, each in enumerate(nodes_of(top))}
        at = places.get(id(node))
        if at is None:
            raise _Unmarked
        return b"%d of %s" % (at, self._of_file(getattr(top, "file", None)))
