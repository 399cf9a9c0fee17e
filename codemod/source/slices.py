"""What a name at the top of a file can lead to: digests of parts of files.

A file has its definitions (functions and classes at its top) and the rest of its statements. A slice has the rest, some
definitions, and those that are named in what it has. Who starts there and follows names comes to nothing else in this
file, so that as long as the slice says the same in the same order, all that can be seen from there is the same.
"""

from __future__ import annotations

import ast
import re
import unicodedata
from hashlib import blake2b
from typing import cast

from .child_fields import within
from .documents import Document

_WORD = re.compile(r"\w+")
_EXPORTS = "__all__"
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
"""The statements at the top of a file that are parts of their own."""


class Slices:
    """The slices of one document that can be parsed."""

    def __init__(self, document: Document) -> None:
        lines = document.text.encode("utf-8", "surrogatepass").splitlines(keepends=True)
        self._texts: list[bytes] = []
        self._rest: list[int] = []
        self._defining: dict[str, list[int]] = {}
        self._named: dict[int, list[int]] = {}
        self._known: dict[str, str] = {}
        for at, statement in enumerate(document.part.body):
            self._texts.append(b"".join(lines[first_row(statement) - 1 : statement.end_lineno]))
            if not isinstance(statement, DEFINITIONS):
                self._rest.append(at)
                if _is_list_of_names(statement):
                    self._named[at] = []
                continue
            for name in _bound(statement):
                self._defining.setdefault(name, []).append(at)

    def of(self, name: str) -> str:
        """The digest of what a name leads to; for no name that of the rest alone."""
        known = self._known.get(name)
        if known is None:
            found: set[int] = set()
            waiting = [*self._rest, *self._defining.get(name, ())]
            while waiting:
                at = waiting.pop()
                if at not in found:
                    found.add(at)
                    waiting += self._names_in(at)
            whole = b"\0".join([self._texts[at] for at in sorted(found)])
            known = self._known[name] = blake2b(whole, digest_size=16).hexdigest()
        return known

    def _names_in(self, at: int) -> list[int]:
        """The definitions whose names are written in a statement."""
        named = self._named.get(at)
        if named is None:
            text = self._texts[at].decode("utf-8", "surrogatepass")
            words = set(_WORD.findall(text if text.isascii() else unicodedata.normalize("NFKC", text)))
            named = self._named[at] = [
                other for name in words & self._defining.keys() for other in self._defining[name]
            ]
        return named


def tops_of(tree: ast.Module) -> dict[ast.AST, tuple[str, int]]:
    """The statements at the top of a file, each by the name it defines and which of those with that name it is."""
    found: dict[ast.AST, tuple[str, int]] | None = getattr(tree, "tops", None)
    if found is None:
        found, counts = {}, dict[str, int]()
        for statement in tree.body:
            name = statement.name if isinstance(statement, DEFINITIONS) else ""
            found[statement] = name, counts.get(name, 0)
            counts[name] = counts.get(name, 0) + 1
        tree.tops = found  # type: ignore[attr-defined]
    return found


def place_in_file(node: ast.stmt) -> str:
    """A file, a statement at its top and the row in there: the same for no two statements that begin in other rows."""
    statement = top = cast(ast.AST, node)
    while (above := getattr(top, "parent", None)) is not None:
        statement, top = top, above
    name, at = tops_of(top).get(statement, ("", 0)) if isinstance(top, ast.Module) else ("", 0)
    return f"{getattr(top, 'file', '')}:{name}:{at}:{node.lineno - getattr(statement, 'lineno', 0)}"


def first_row(statement: ast.AST) -> int:
    """The row in which a statement begins, decorators included."""
    rows: list[int] = [item.lineno for item in (statement, *getattr(statement, "decorator_list", ()))]
    return min(rows)


def position(node: ast.AST, row: int) -> tuple[int, int, int, int]:
    """Where a node stands, as counted from a row; raises AttributeError for one that has no place."""
    placed = cast(ast.expr, node)
    return placed.lineno - row, placed.col_offset, cast(int, placed.end_lineno) - row, cast(int, placed.end_col_offset)


def _is_list_of_names(statement: ast.stmt) -> bool:
    """``__all__ = [...]``: names that lead nowhere."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [getattr(target, "id", "") for target in targets] == [_EXPORTS]


def _bound(statement: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """The names that a definition binds at the top of the file."""
    found = {statement.name}
    for node in within(statement):
        if isinstance(node, ast.Global):
            found.update(node.names)
        elif isinstance(node, ast.NamedExpr) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
    return found
