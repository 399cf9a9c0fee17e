"""Marks of what facts say: two runs in which a fact has the same mark were told the same.

A part of a file is marked by what stands around it at the top of the file, and by all that can be reached from there,
so that whatever is said of a part that has been changed since has another mark.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from types import FunctionType

from ..python.names import ModuleNames, Scope
from ..source.child_fields import within
from ..source.documents import Document
from ..source.slices import first_row, position, tops_of
from ..source.slim_nodes import ORIGINAL
from ..trainers.reading.configs import ConfigFile


class _Unmarked(Exception):
    """Something of which nobody can say when it is the same."""


class RunMarks:
    """Marks values of one run."""

    def __init__(self, contents: Mapping[str, str], digest: Callable[[str, str], str]) -> None:
        """``contents`` are digests of the files; ``digest`` gives that of the slice of a name in a file."""
        self._contents, self._digest = contents, digest
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
        if isinstance(value, ModuleNames):  # who looks into it notes what he looks at
            return f"module {value.document.path}".encode("utf-8", "backslashreplace")
        if isinstance(value, Document):
            return b"document " + self._of_file(value.path)
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
        statement = top = node
        has_place = hasattr(node, "lineno")
        while (above := getattr(top, "parent", None)) is not None:
            has_place &= not isinstance(above, ast.JoinedStr)  # before Python 3.12 several may have one place there
            statement, top = top, above
        path = getattr(top, "file", None)
        if not isinstance(top, ast.Module) or not path:
            raise _Unmarked
        if node is top:
            return b"all of " + self._of_file(path)
        name, number = tops_of(top)[statement]
        found = f"{number} {name} {path} {self._digest(path, name)}"
        if has_place:
            where = f"{ORIGINAL[type(node)].__name__} {position(node, first_row(statement))}"
            return f"{where} of {found}".encode("utf-8", "backslashreplace")
        places = self._places.get(id(statement))
        if places is None:
            places = self._places[id(statement)] = {id(each): at for at, each in enumerate(within(statement))}
        at = places.get(id(node))
        if at is None:
            raise _Unmarked
        return f"{at} of {found}".encode("utf-8", "backslashreplace")
