"""Writing Python: structural operations on one file's text, every other character kept.

`ast` has said what to do (see `model`), LibCST does it. This package is the only one that imports LibCST.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache

import libcst as cst

from ..model import AddImport, DropImport, EditRefused, PythonOperation
from .editor import Editor
from .imports import add_imports, bindings_of
from .locate import ParsedText
from .names import parse_edited, used_names
from .plan import make_plan

_parsed = lru_cache(maxsize=2)(ParsedText)
"""The last texts: a report asks for each fix of a file by itself, and to parse one takes most of what a fix takes."""


def rewrite(text: str, operations: Sequence[PythonOperation]) -> str:
    """Carry out all operations of one file at once and return its new text.

    ``text`` is decoded, without a byte order mark, its newlines as they are in the file. Spans are those of the nodes
    of ``ast.parse(text)``. Raises `EditRefused`, with a sentence for the user, when an operation cannot be done, two
    contradict each other, LibCST does not print ``text`` back equal, or the result would not be valid Python.
    """
    if not operations:
        return text
    added = [operation.statement for operation in dict.fromkeys(operations) if isinstance(operation, AddImport)]
    if len(added) == len(operations):
        return _verified(text, add_imports(text, added))
    try:
        result = _edited(_parsed(text), operations, bindings_of(added))
    except cst.CSTValidationError as error:
        raise EditRefused(f"the edit does not fit into the code around it: {error}") from error
    except RecursionError as error:
        raise EditRefused("the file is nested too deeply to be edited") from error
    return _verified(text, add_imports(result, added))


def _edited(source: ParsedText, operations: Sequence[PythonOperation], rebound: dict[str, str]) -> str:
    """The text after all operations but the added imports; an import is dropped only if nothing else needs it."""
    result = _transformed(source, operations)
    dropped = [operation for operation in operations if isinstance(operation, DropImport)]
    if not dropped:
        return result
    used = used_names(result) - rebound.keys()
    needed = {operation for operation in dropped if operation.name in used}
    rest = [operation for operation in operations if operation not in needed]
    return _transformed(source, rest) if needed else result


def _transformed(source: ParsedText, operations: Sequence[PythonOperation]) -> str:
    plan = make_plan(source, operations)
    if not plan.touched:
        return source.text
    edited = source.module.visit(Editor(source, plan))
    return edited.code


def _verified(before: str, after: str) -> str:
    parse_edited(after)
    if after != before and not _compiles(after) and _compiles(before):
        raise EditRefused("the edited file would not compile")
    return after


def _compiles(text: str) -> bool:
    """Whether the compiler accepts the text (it finds doubled arguments and late ``__future__`` imports)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(text, "<edited>", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
