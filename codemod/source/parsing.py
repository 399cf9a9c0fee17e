"""Python text to a syntax tree, with every way this can fail turned into one answer."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
import warnings
from typing import Any

from ..model import PrecfixError
from .child_fields import CHILD_FIELDS
from .slim_nodes import of_both, slimmed

MAX_DEPTH = 200
"""Deeper trees are refused: visitors recurse two or three calls a level, and Python stops them at 1000."""
_SHORT = MAX_DEPTH
"""Bytes in which nothing can be nested too deeply."""
_PLAIN_DEPTH = MAX_DEPTH - 3
"""Levels of nodes with parts, below the module, in a tree that need not be looked at again."""
_DEEPEST = 5 * MAX_DEPTH
"""Levels that no tree has which is not refused: what is short has no more than a few for each byte."""

_PLACED = frozenset(of_both(dict.fromkeys((*ast.stmt.__subclasses__(), *ast.expr.__subclasses__()), True)))
"""Nodes that say where they end."""

_HARMLESS = 200_000
"""Characters in which no chain of operators is long enough to overflow the stack of Python 3.10."""
_MAX_OLDER = 200
"""Lines with f-strings of Python 3.12 that an older one is helped over."""
_WITH_PARAMETERS = ("def", "class", "async")
"""The words whose names may be followed by type parameters since Python 3.12."""


class Unparsable(PrecfixError):
    """A text is no Python that can be parsed. ``row`` is 1-based, and 0 when unknown."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(f"line {row}: {reason}" if row else reason)
        self.row = row
        self.reason = reason


def parse_python(text: str) -> ast.Module:
    """The syntax tree of ``text`` in slim nodes; raises `Unparsable`. Nothing is executed and no warning is shown."""
    if sys.version_info < (3, 11) and len(text) > _HARMLESS and _longest_statement(text) > _HARMLESS // 2:
        raise Unparsable(0, "nested too deeply for Python's parser")  # which would crash, not raise
    try:
        tree = _quietly(text)
    except SyntaxError as error:
        raise Unparsable(error.lineno or 0, (error.msg or "invalid syntax") + _newer_python(error)) from None
    except (RecursionError, MemoryError):
        raise Unparsable(0, "nested too deeply for Python's parser") from None
    except ValueError as error:  # a NUL, or a lone surrogate
        raise Unparsable(0, f"cannot be parsed: {error}") from None
    try:
        slimmed(tree, _PLAIN_DEPTH)
    except RecursionError:
        tree = _quietly(text)
        if _is_too_deep(tree):
            raise Unparsable(0, f"nested more than {MAX_DEPTH} levels deep") from None
        slimmed(tree, _DEEPEST)
    return tree


def _quietly(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tree_of(text)


def tree_of(text: str) -> ast.Module:
    """What `ast.parse` gives for ``text``.

    Quotes and backslashes within fields of f-strings, which Python 3.12 brought, are read as others of the same length
    where an older Python stops at them.
    """
    for _ in range(_MAX_OLDER):
        try:
            return ast.parse(text)
        except SyntaxError as error:
            lines = text.splitlines(keepends=True)
            row = (error.lineno or 0) - 1
            older = _older_fields(lines[row]) if 0 <= row < len(lines) else ""
            if sys.version_info >= (3, 12) or older in ("", *lines[row : row + 1]):
                raise
            text = "".join((*lines[:row], older, *lines[row + 1 :]))
    return ast.parse(text)


def _older_fields(line: str) -> str:
    """A line whose f-strings hold the other kind of quote in their fields, and no backslash."""
    found, outer, depth, inner = list(line), "", 0, False
    for place, char in enumerate(line):
        if not outer:
            is_start = char in "'\"" and place > 0 and line[place - 1] in "fF" and line[place : place + 3] != char * 3
            outer, depth = (char if is_start else ""), 0
        elif char in "{}" and not inner:
            depth = max(depth + (1 if char == "{" else -1), 0)
        elif char == outer and depth:
            found[place], inner = ("'" if outer == '"' else '"'), not inner
        elif char == "\\" and depth:
            found[place] = "_"
        elif char == outer:
            outer = ""
    return "".join(found)


def _newer_python(error: SyntaxError) -> str:
    """A hint when the text looks like Python that came after the one that runs here; else "".

    precfix reads files with the parser of its own Python, and the reader should learn how to get more of them read.
    """
    wanted = _syntax_since(error.msg or "", (error.text or "").strip())
    if wanted is None or sys.version_info >= wanted:
        return ""
    return f" (Python {wanted[0]}.{wanted[1]} syntax? precfix runs in {sys.version_info[0]}.{sys.version_info[1]} here)"


def _syntax_since(message: str, line: str) -> tuple[int, int] | None:
    """The Python in which what stands here was new, judged by the message and the first words."""
    word, _, rest = line.partition(" ")
    if "parenthesized" in message and word == "except":
        return 3, 14
    if message.startswith("invalid syntax") and _has_string(line, "t"):
        return 3, 14
    if (word == "type" and "=" in rest) or (word in _WITH_PARAMETERS and "[" in rest.partition("(")[0]):
        return 3, 12
    if message.startswith("f-string") or _has_string(line, "f"):
        return 3, 12
    return (3, 11) if line.startswith(("except*", "except *")) else None


def _has_string(line: str, prefix: str) -> bool:
    padded = f" {line}"
    return any(f"{before}{prefix}{quote}" in padded for before in " (=,[{" for quote in "'\"")


def _longest_statement(text: str) -> int:
    """The number of tokens of the longest statement; for a text that is no Python, of its valid start."""
    longest = length = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            length = 0 if token.type == tokenize.NEWLINE else length + 1
            longest = max(longest, length)
    except (tokenize.TokenError, SyntaxError):
        pass  # the parser will say what is wrong
    return longest


def _is_too_deep(tree: ast.Module) -> bool:
    """Whether statements and expressions nest beyond the limit; what is short is not looked into."""
    level: list[ast.AST] = [tree]
    for _ in range(MAX_DEPTH):
        below: list[ast.AST] = []
        for node in level:
            for field in CHILD_FIELDS[node.__class__]:
                value: Any = getattr(node, field, None)
                for child in value if value.__class__ is list else (value,):
                    kind = child.__class__
                    if kind in _PLACED:
                        if child.end_lineno != child.lineno or child.end_col_offset - child.col_offset > _SHORT:
                            below.append(child)
                    elif isinstance(child, ast.AST):
                        below.append(child)
        if not below:
            return False
        level = below
    return any(_is_long(child) for node in level for child in ast.iter_child_nodes(node))


def _is_long(node: ast.AST) -> bool:
    if not isinstance(node, ast.stmt | ast.expr):
        return True
    return node.end_lineno != node.lineno or (node.end_col_offset or 0) - node.col_offset > _SHORT
