"""From the span of an `ast` node to its LibCST twin.

Both parsers agree on kind, start and end of nearly every node; tuples and generator expressions, whose parentheses
count for `ast` only, are found through their first element. Every pair is compared as code before it is trusted:
before Python 3.12 `ast` gives wrong positions inside f-strings.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from ..model import EditRefused, Span
from ..source.parsing import tree_of

CstStatement = cst.BaseSmallStatement | cst.BaseCompoundStatement
Suite = cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite
_Key = tuple[int, int, int, int]


def where(span: Span) -> str:
    """``row 3, column 5``: how a message names a place of the file."""
    return f"row {span.row}, column {span.column}"


class ParsedText:
    """The text of one file, parsed by both parsers. Raises `EditRefused` when either cannot, or LibCST loses bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = _parse_ast(text)
        self.module = _parse_cst(text)

    def statement(self, span: Span) -> CstStatement:
        """The statement at ``span``; raises `EditRefused` when there is none."""
        self.ast_statement(span)
        for node in self._twins.get(_key(span), ()):
            if isinstance(node, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                return node
        raise EditRefused(f"no statement is found at {where(span)}")

    def ast_statement(self, span: Span) -> ast.stmt:
        """The `ast` statement at ``span``; raises `EditRefused` when there is none."""
        for node in self._ast_nodes.get(self._bytes_key(span), ()):
            if isinstance(node, ast.stmt):
                return node
        raise EditRefused(f"there is no statement at {where(span)}")

    def ast_expression(self, span: Span) -> ast.expr:
        """The outermost `ast` expression at ``span``; raises `EditRefused` when there is none."""
        for node in self._ast_nodes.get(self._bytes_key(span), ()):
            if isinstance(node, ast.expr):
                return node
        raise EditRefused(f"there is no expression at {where(span)}")

    def expression(self, span: Span) -> cst.BaseExpression:
        """The expression at ``span``; for ``*x`` this is ``x``. Raises `EditRefused` when there is none."""
        wanted = self.ast_expression(span)
        if isinstance(wanted, ast.Starred):
            wanted = wanted.value
        found = self._twin(wanted)
        if found is None or not self._same(found, wanted):
            raise EditRefused(f"the expression at {where(span)} is not found again by LibCST")
        return found

    def span_of(self, node: ast.AST) -> Span:
        """The span of an `ast` node that has a position, in characters."""
        key = self._chars_key(node)
        return Span(*key)

    def _twin(self, wanted: ast.expr) -> cst.BaseExpression | None:
        first = _first_element(wanted)
        if first is not None:
            kinds = (cst.GeneratorExp,) if isinstance(wanted, ast.GeneratorExp) else (cst.Tuple,)
            child = self._twin(first.value if isinstance(first, ast.Starred) else first)
            above = self.parents.get(child) if child is not None else None
            above = self.parents.get(above) if isinstance(above, cst.BaseElement) else above
            return above if isinstance(above, kinds) else None
        row, column, end_row, end_column = key = self._chars_key(wanted)
        keys = [key, (row, column + 1, end_row, end_column - 1)] if isinstance(wanted, ast.Tuple) else [key]
        nodes = (node for each in keys for node in self._twins.get(each, ()))
        return next((node for node in nodes if isinstance(node, cst.BaseExpression)), None)

    def _same(self, node: cst.BaseExpression, wanted: ast.expr) -> bool:
        read = read_expression(self.module.code_for_node(node))
        return read is not None and shape(read) == shape(wanted)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around ``node``, innermost first, up to the module."""
        above = self.parents.get(node)
        while above is not None:
            yield above
            above = self.parents.get(above)

    def suite_of(self, node: cst.CSTNode) -> Suite:
        """The block whose direct statement ``node`` is; raises `EditRefused` for an ``elif``."""
        above = self.parents[node]
        if isinstance(above, cst.SimpleStatementLine):
            above = self.parents[above]
        if not isinstance(above, cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite):
            raise EditRefused("an elif is not a statement of a block")
        return above

    def around(self, span: Span) -> tuple[str, str]:
        """The characters directly before and after ``span`` ("" at the ends of the file)."""
        start = self._line_starts[span.row - 1] + span.column - 1
        end = self._line_starts[span.end_row - 1] + span.end_column - 1
        return self.text[start - 1 : start] if start else "", self.text[end : end + 1]

    @cached_property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """Each node's parent (white space left out)."""
        return parents_of(self.module)

    @cached_property
    def _twins(self) -> dict[_Key, list[cst.CSTNode]]:
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)
        found: dict[_Key, list[cst.CSTNode]] = {}
        wanted = (cst.BaseExpression, cst.BaseSmallStatement, cst.BaseCompoundStatement)
        for node, place in wrapper.resolve(PositionProvider).items():
            if isinstance(node, wanted):
                start, end = place.start, place.end
                found.setdefault((start.line, start.column + 1, end.line, end.column + 1), []).append(node)
        return found

    @cached_property
    def _ast_nodes(self) -> dict[_Key, list[ast.AST]]:
        found: dict[_Key, list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.stmt | ast.expr):
                end_row, end_column = node.end_lineno or 0, node.end_col_offset or 0
                found.setdefault((node.lineno, node.col_offset, end_row, end_column), []).append(node)
        return found

    @cached_property
    def _line_starts(self) -> list[int]:
        return line_starts(self.text)

    def _line(self, row: int) -> str:
        starts = self._line_starts
        if not 0 < row <= len(starts):
            raise EditRefused(f"the file has no row {row}")
        return self.text[starts[row - 1] : starts[row] if row < len(starts) else len(self.text)]

    def _bytes_key(self, span: Span) -> _Key:
        start = len(self._line(span.row)[: span.column - 1].encode())
        return span.row, start, span.end_row, len(self._line(span.end_row)[: span.end_column - 1].encode())

    def _chars_key(self, node: ast.AST) -> _Key:
        row, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0)
        end_row, end_column = getattr(node, "end_lineno", row), getattr(node, "end_col_offset", column)
        start = len(self._line(row).encode()[:column].decode(errors="replace"))
        return row, start + 1, end_row, len(self._line(end_row).encode()[:end_column].decode(errors="replace")) + 1


def line_starts(text: str) -> list[int]:
    r"""Offsets at which rows start: only ``\n``, ``\r\n`` and ``\r`` end a row, as for Python's tokenizer."""
    starts = [0]
    at = 0
    while at < len(text):
        lf, cr = text.find("\n", at), text.find("\r", at)
        if lf < 0 and cr < 0:
            break
        at = lf + 1 if cr < 0 or 0 <= lf < cr else cr + (2 if lf == cr + 1 else 1)
        starts.append(at)
    return starts


def parents_of(root: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """Each node's parent below ``root``; white space, commas and the like are left out."""
    parents: dict[cst.CSTNode, cst.CSTNode] = {}
    names: dict[type, tuple[str, ...]] = {}
    stack = [root]
    while stack:
        node = stack.pop()
        kind = type(node)
        if kind not in names:
            names[kind] = tuple(field.name for field in fields(kind))
        for name in names[kind]:
            value = getattr(node, name)
            for child in value if isinstance(value, list | tuple) else (value,):
                if isinstance(child, cst.CSTNode) and not isinstance(child, _TRIVIA):
                    parents[child] = node
                    stack.append(child)
    return parents


_TRIVIA = (
    cst.BaseParenthesizableWhitespace,
    cst.TrailingWhitespace,
    cst.EmptyLine,
    cst.Comma,
    cst.LeftParen,
    cst.RightParen,
    cst.Semicolon,
    cst.Dot,
    cst.AssignEqual,
)


def read_expression(code: str) -> ast.expr | None:
    """``code`` as an expression wherever its newlines stand; None when it is none."""
    try:
        return ast.parse(f"(\n{code}\n)", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def shape(node: ast.AST) -> str:
    """A text that is equal for equal code, whether the code reads or writes its names."""
    return ast.dump(node).replace("ctx=Store()", "ctx=Load()").replace("ctx=Del()", "ctx=Load()")


def _first_element(node: ast.expr) -> ast.expr | None:
    if isinstance(node, ast.Tuple) and node.elts:
        return node.elts[0]
    return node.elt if isinstance(node, ast.GeneratorExp) else None


def _key(span: Span) -> _Key:
    return span.row, span.column, span.end_row, span.end_column


def _parse_ast(text: str) -> ast.Module:
    try:
        return tree_of(text)
    except SyntaxError as error:
        raise EditRefused(f"the file is not Python: {error.msg} (row {error.lineno})") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise EditRefused(f"the file cannot be parsed: {error}") from error


def _parse_cst(text: str) -> cst.Module:
    try:
        module = cst.parse_module(text)
        if module.code + "\r" == text:  # LibCST takes a last CR for no newline
            module = module.with_changes(has_trailing_newline=True)
        same = module.code == text
    except cst.ParserSyntaxError as error:
        raise EditRefused("LibCST cannot parse the file") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise EditRefused(f"LibCST cannot parse the file: {error}") from error
    if not same:
        raise EditRefused("LibCST does not print the file back as it is (a form feed or a backslash before code?)")
    return module
