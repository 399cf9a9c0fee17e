"""Random damage to files: bytes, lines and words of any text, nodes of Python code. All of it follows a seed."""

from __future__ import annotations

import ast
import copy
import random
import re
import warnings
from collections.abc import Sequence

from .odd_code import FRAMES, HEADERS, ODD_EXPRESSIONS, ODD_STATEMENTS, PIECES

MAX_BYTES = 60_000
"""Larger results are cut: a fault shows in a small file as well."""


def damaged(data: bytes, source: random.Random, others: Sequence[bytes]) -> bytes:
    """``data`` after a few random edits; ``others`` lend pieces."""
    for _ in range(source.choice((1, 1, 2, 3, 8))):
        data = source.choice(_DAMAGES)(data, source, others)
    return data[:MAX_BYTES]


def _place(data: bytes, source: random.Random, most: int) -> tuple[int, int]:
    start = source.randint(0, len(data))
    return start, min(len(data), start + source.randint(0, most))


def _cut(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    start, end = _place(data, source, source.choice((1, 4, 40)))
    return data[:start] + data[end:]


def _put(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    start, end = _place(data, source, source.choice((0, 0, 1, 6)))
    return data[:start] + source.choice(PIECES) * source.choice((1, 1, 1, 2, 300)) + data[end:]


def _flip(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    start, _end = _place(data, source, 0)
    return data[:start] + bytes([source.randrange(256)]) + data[start + 1 :]


def _lend(data: bytes, source: random.Random, others: Sequence[bytes]) -> bytes:
    other = source.choice(others) if others else data
    first, last = _place(other, source, 400)
    start, end = _place(data, source, 40)
    return data[:start] + other[first:last] + data[end:]


def _lines(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    if len(lines) < 2:
        return data
    at, other = source.randrange(len(lines)), source.randrange(len(lines))
    what = source.randrange(5)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, lines[other])
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif what == 3:
        lines[at] = source.choice((b" ", b"\t", b"    ", b"# ", b"- ")) + lines[at]
    else:
        lines[at] = lines[at].lstrip()
    return b"".join(lines)


_WORD = re.compile(rb"\w+|[^\w\s]+")


def _words(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    """One word in the place of another one."""
    found = list(_WORD.finditer(data))
    if not found:
        return data
    at, other = source.choice(found), source.choice(found)
    new = other[0] if source.random() < 0.6 else source.choice(PIECES)
    return data[: at.start()] + new + data[at.end() :]


def _newlines(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", source.choice((b"\r\n", b"\r", b"\n", b"\n\n")))


def _deeper(data: bytes, source: random.Random, _: Sequence[bytes]) -> bytes:
    start, _end = _place(data, source, 0)
    opening = source.choice(
        (b"[", b"(", b"{", b"- ", b"{a: ", b"not ", b"x.", b"f(", b"$(", b'"', b"- - ", b"[[", b"a=")
    )
    return data[:start] + opening * source.choice((3, 150, 250, 5000)) + data[start:]


_DAMAGES = (_cut, _put, _put, _flip, _lend, _lend, _lines, _lines, _words, _words, _words, _newlines, _deeper)


# --- Python -----------------------------------------------------------------------------------------------------------


class Code:
    """Statements and expressions of real code, to be put where they do not belong."""

    def __init__(self, texts: Sequence[str]) -> None:
        odd = [_parsed(each + "\n") for each in ODD_EXPRESSIONS.splitlines()]
        trees = [tree for text in texts if (tree := _parsed(text)) is not None]
        nodes = [node for tree in trees for node in ast.walk(tree)]
        self.expressions = [node for node in nodes if isinstance(node, ast.expr) and _is_loaded(node)]
        self.statements = [node for node in nodes if isinstance(node, ast.stmt) and _size(node) < 60]
        self.odd_expressions = [tree.body[0].value for tree in odd if tree and isinstance(tree.body[0], ast.Expr)]
        tree = _parsed(ODD_STATEMENTS)
        assert tree is not None
        self.odd_statements = tree.body

    def changed(self, text: str, source: random.Random) -> str | None:
        """``text`` with some nodes replaced, moved, wrapped or removed; None where the result is no Python."""
        tree = _parsed(text)
        if tree is None:
            return None
        for _ in range(source.choice((1, 2, 4, 10))):
            self._change(tree, source)
        try:
            result = ast.unparse(ast.fix_missing_locations(tree))
        except (ValueError, RecursionError, TypeError, AttributeError):
            return None
        return result if _parsed(result) is not None and len(result) < MAX_BYTES else None

    def _change(self, tree: ast.Module, source: random.Random) -> None:
        if source.random() < 0.55:
            self._change_expression(tree, source)
        else:
            self._change_statement(tree, source)

    def _change_expression(self, tree: ast.Module, source: random.Random) -> None:
        places = list(_expression_places(tree))
        if not places:
            return
        holder, name, index = source.choice(places)
        new: ast.AST = copy.deepcopy(self._expression(tree, source))
        old = getattr(holder, name) if index is None else getattr(holder, name)[index]
        if source.random() < 0.35:
            new = self._around(old, source)
        if index is None:
            setattr(holder, name, new)
        elif source.random() < 0.1:
            del getattr(holder, name)[index]
        else:
            getattr(holder, name)[index] = new

    def _around(self, old: ast.expr, source: random.Random) -> ast.expr:
        tree = ast.parse(source.choice(FRAMES), mode="eval").body

        class Fill(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> ast.AST:
                return copy.deepcopy(old) if node.id == "X" else node

        result = Fill().visit(tree)
        assert isinstance(result, ast.expr)
        return result

    def _expression(self, tree: ast.Module, source: random.Random) -> ast.expr:
        own = [node for node in ast.walk(tree) if isinstance(node, ast.expr) and _is_loaded(node)]
        pool = source.choice((own, own, self.expressions, self.odd_expressions))
        return source.choice(pool or self.odd_expressions)

    def _change_statement(self, tree: ast.Module, source: random.Random) -> None:
        bodies = [
            value
            for node in ast.walk(tree)
            for name in ("body", "orelse", "finalbody")
            if isinstance(value := getattr(node, name, None), list) and value and isinstance(value[0], ast.stmt)
        ]
        if not bodies:
            return
        body, other = source.choice(bodies), source.choice(bodies)
        at, start = source.randrange(len(body)), source.randrange(len(other))
        what = source.randrange(7)
        if what == 0 and len(body) > 1:
            del body[at]
        elif what == 1:
            body.insert(at, copy.deepcopy(other[start]))
        elif what == 2 and body is not other and len(other) > 1 and not _inside(body, other[start]):
            body.insert(at, other.pop(start))
        elif what == 3:
            body.insert(at, copy.deepcopy(source.choice(self.odd_statements)))
        elif what == 4 and self.statements:
            body.insert(at, copy.deepcopy(source.choice(self.statements)))
        elif what == 5:
            body[at:] = [self._block(body[at:], source)]
        else:
            source.shuffle(body)

    def _block(self, body: list[ast.stmt], source: random.Random) -> ast.stmt:
        block = ast.parse(source.choice(HEADERS)).body[0]
        inner: ast.AST = block
        while isinstance(getattr(inner, "body", None), list) and not isinstance(inner.body[0], ast.Pass):  # type: ignore[attr-defined]
            inner = inner.body[0]  # type: ignore[attr-defined]
        if isinstance(inner, ast.Match):
            inner.cases[0].body = body
        else:
            inner.body = body  # type: ignore[attr-defined]
        return block


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def _is_loaded(node: ast.expr) -> bool:
    return isinstance(getattr(node, "ctx", ast.Load()), ast.Load) and not isinstance(node, ast.Slice | ast.Starred)


def _inside(body: list[ast.stmt], node: ast.stmt) -> bool:
    return any(getattr(each, "body", None) is body or getattr(each, "orelse", None) is body for each in ast.walk(node))


def _expression_places(tree: ast.AST) -> list[tuple[ast.AST, str, int | None]]:
    found: list[tuple[ast.AST, str, int | None]] = []
    for holder in ast.walk(tree):
        if isinstance(holder, ast.JoinedStr | ast.FormattedValue | ast.MatchValue):
            continue
        for name, value in ast.iter_fields(holder):
            if isinstance(value, ast.expr) and _is_loaded(value):
                found.append((holder, name, None))
            elif isinstance(value, list):
                found += [
                    (holder, name, index)
                    for index, each in enumerate(value)
                    if isinstance(each, ast.expr)
                    and _is_loaded(each)
                    and not isinstance(holder, ast.Dict | ast.Compare)
                ]
    return found
