"""Places and edits of a Python document, named by the nodes of its tree.

A rule says ``module.place(call, "why")`` and ``module.replace(call, "(", call.args[0], ").float()")``; paths and spans
are looked up here. What an edit keeps of the old text is given as nodes, so comments and quotes inside it survive.
"""

from __future__ import annotations

import ast
from typing import Literal, TypeAlias

from ..model import (
    AddDecorator,
    AddImport,
    DropImport,
    Edit,
    InsertArgument,
    InsertStatement,
    NameArgument,
    Operation,
    Place,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    SetArgument,
    Span,
    WrapStatements,
)
from ..source.documents import Document

EditPlace: TypeAlias = ast.AST | Span
"""A node of the document's tree, or a span that a rule has worked out itself."""

PRIMARIES = (ast.Name, ast.Attribute, ast.Subscript, ast.Call)
"""Expressions that take a method without parentheses."""


class Editable:
    """What can be pointed at and edited in one Python document."""

    def __init__(self, document: Document) -> None:
        self.document = document

    @property
    def path(self) -> str:
        """The path of the document, relative to the project's root."""
        return self.document.path

    def span(self, where: EditPlace) -> Span:
        """The span of a node; a span stays as it is."""
        return where if isinstance(where, Span) else self.document.span(where)

    def source(self, where: EditPlace) -> str:
        """What stands there, as it is written."""
        return self.document.source(self.span(where))

    def place(self, where: EditPlace, message: str) -> Place:
        """A place to report: the finding itself, or a piece of its evidence."""
        return Place(self.path, self.span(where), message)

    def replace(self, where: EditPlace, *parts: str | EditPlace) -> Edit:
        """Replace an expression by ``parts``: new source text, and the sub-expressions to keep as they are written."""
        kept = tuple(part if isinstance(part, str) else self.span(part) for part in parts)
        return self._edit(ReplaceExpression(self.span(where), kept))

    def append(self, node: ast.expr, suffix: str) -> Edit:
        """Put ``suffix`` (``.float()``) behind an expression, which gets parentheses where it needs them."""
        return self.replace(node, *((node, suffix) if isinstance(node, PRIMARIES) else ("(", node, f"){suffix}")))

    def set_argument(self, call: EditPlace, name: str, value: str) -> Edit:
        """Set the keyword ``name`` of a call to ``value`` (source text): replaced where it is passed, else appended."""
        return self._edit(SetArgument(self.span(call), name, value))

    def remove_argument(self, call: EditPlace, argument: str | int) -> Edit:
        """Remove a keyword (by name) or a positional argument (by index) of a call."""
        return self._edit(RemoveArgument(self.span(call), argument))

    def name_argument(self, call: EditPlace, argument: str | int, name: str) -> Edit:
        """Pass an argument of a call as keyword ``name``: a positional one (by index), or one of another name."""
        return self._edit(NameArgument(self.span(call), argument, name))

    def insert_argument(self, call: EditPlace, index: int, value: str) -> Edit:
        """Pass ``value`` (source text) to a call as its positional argument ``index``, before those from there on."""
        return self._edit(InsertArgument(self.span(call), index, value))

    def remove(self, statement: EditPlace) -> Edit:
        """Delete a statement with the comments that belong to it."""
        return self._edit(RemoveStatement(self.span(statement)))

    def insert(self, statement: EditPlace, text: str, where: Literal["before", "after"] = "before") -> Edit:
        """Insert ``text`` (complete lines, not indented) before or after a statement."""
        return self._edit(InsertStatement(self.span(statement), text, where))

    def wrap(self, first: EditPlace, last: EditPlace, header: str) -> Edit:
        """Put the sibling statements from ``first`` to ``last`` under ``header`` (``with ...:``)."""
        return self._edit(WrapStatements(self.span(first), self.span(last), header))

    def decorate(self, function: EditPlace, text: str) -> Edit:
        """Decorate a function with ``text`` (no ``@``), below the decorators it already has."""
        return self._edit(AddDecorator(self.span(function), text))

    def add_import(self, statement: str) -> Edit:
        """Make an import (``import torch``) hold at module level, once."""
        return self._edit(AddImport(statement))

    def drop_import(self, statement: EditPlace, name: str) -> Edit:
        """Remove the import that binds ``name`` from an import statement unless the name is still used."""
        return self._edit(DropImport(self.span(statement), name))

    def _edit(self, operation: Operation) -> Edit:
        return Edit(self.path, operation)
