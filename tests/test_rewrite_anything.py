"""Random operations on strange code: the meaning is that of the oracle, the other lines are untouched."""

from __future__ import annotations

import ast
import random
import warnings
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.model import (
    AddDecorator,
    AddImport,
    DropImport,
    EditRefused,
    InsertStatement,
    PythonOperation,
    RemoveArgument,
    RemoveStatement,
    Span,
    WrapStatements,
)
from precfix.codemod.rewrite import rewrite
from precfix.codemod.source.documents import Document, FileKind, Unreadable

from .byte_variants import VARIANTS
from .nightly import examples
from .readers import REPOSITORY
from .rewrite_oracle import Chooser, Oracle, comments, expected_shapes, shape, without_imports

STRANGE = '''#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Doc \u00fc."""
from __future__ import annotations
import os, sys; import torch  # noqa: E401

from a import (  # names
    b,  # b
    c as d,
)
\x0c
@decorate(1,
          key="\u00e9\u00e9")
class A(B, metaclass=M):
    """doc"""

    x: int = 1  # type: ignore

    @staticmethod
    async def f(self, a, /, b=(1), *args, c: "int" = 2, **kw) -> "None":
        # about it
        async with autocast(a), \\
                other() as o:  # head
            await self.g(* args, k = 1, **kw)

            # inner
            text = """
  raw
        text""" "more" \'x\'
            # tail

        if a: return b; c
        elif (b
              or c):  # why
            pass
        elif d:

            # alone
            x = lambda y, *z: (yield)
        else:
            for i, in(a, b): print(i); continue
            else: pass
  # stray
        return[x for x in sum(y for y in z) if y if not z]

try:
\timport q
except (E, F) as e:
\tq = None
finally:
\twith (open("a") as f, open("b") as g):
\t\tif (n := len(f.read())) > 10 and not g: del n

match torch.f(a)[1:2, ::3]:
    case {"k": [1, *rest], **more} if rest:
        scaler.scale(
            loss if a else b  # which
            # below
        ).backward()
    case A(x=1) | None:
        x = y = -1 ** - 2 if not a else b,
    case _: ...
while 1: f"{a!r:>{w}} {{}} {b=}"; break

def last(a=[], *, b): return a @ b  # end
if __name__ == "__main__":
    last(
        1,
        b=2,  # two
    )  # called
    # the end'''


def _operations(seed: int, count: int, text: str) -> list[PythonOperation]:
    chooser = Chooser(text, random.Random(seed))
    found = (chooser.operation() for _ in range(count))
    return [operation for operation in found if operation is not None]


def _rewritten(text: str, operations: list[PythonOperation]) -> str | None:
    try:
        return rewrite(text, operations)
    except EditRefused:
        return None


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_the_strange_code_is_kept(newline: str) -> None:
    text = STRANGE.replace("\n", newline)
    operation = RemoveStatement(Span(4, 1, 4, 35))
    assert rewrite(text, [operation]) == text.replace(f"from __future__ import annotations{newline}", "")


TAKING = RemoveStatement | RemoveArgument | DropImport
"""Operations that take comments with them."""


def assert_intended(text: str, result: str, operations: list[PythonOperation]) -> None:
    """The result means what the oracle says, and nothing is touched but the lines of the operations."""
    tree = ast.parse(result)
    shapes = expected_shapes(text, operations)
    if any(isinstance(each, AddImport) for each in operations):
        _assert_imports(tree, text, operations)
    else:
        assert shape(tree) in shapes
    rows = touched(text, operations)
    before, after = _lines(text), _lines(result)
    _assert_subsequence([line for row, line in enumerate(before, 1) if row not in rows], after)
    taken = [each for each in operations if isinstance(each, TAKING)]
    lost = comments(text) - comments(result)
    taken_rows = touched(text, taken)
    assert not lost - Counter(comments_in(before, taken_rows)), lost
    endings = {line[len(line.rstrip("\r\n")) :] for line in text.splitlines(keepends=True)}
    if "\n" not in endings and endings & {"\r", "\r\n"}:
        assert "\n" not in result.replace("\r\n", "").replace("\r", "") or "\r\n" in endings
    last_touched = rows and max(rows) >= len(before)
    assert last_touched or result.endswith(("\n", "\r")) == text.endswith(("\n", "\r"))


def _lines(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _assert_subsequence(wanted: list[str], lines: list[str]) -> None:
    left = iter(lines)
    for line in wanted:
        assert any(line == each for each in left), f"the line is gone, or moved: {line!r}"


def comments_in(lines: list[str], rows: set[int]) -> list[str]:
    """Every text from a hash to the end of its line, in some rows: more than comments, never less."""
    found = []
    for row in rows:
        line = lines[row - 1] if row <= len(lines) else ""
        found += [line[at:].rstrip("\r\n") for at, char in enumerate(line) if char == "#"]
    return found


def _assert_imports(tree: ast.Module, text: str, operations: list[PythonOperation]) -> None:
    added = [each for each in operations if isinstance(each, AddImport)]
    rest = [each for each in operations if not isinstance(each, AddImport)]
    body, bound = without_imports(tree)
    wanted = {pair for each in added for pair in without_imports(ast.parse(each.statement))[1]}
    anywhere = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert {name for name, _ in wanted} <= {name for name, _ in bound} | anywhere  # an import may have been wrapped
    if anywhere and any(isinstance(each, WrapStatements) for each in rest):
        return
    if not any(isinstance(each, DropImport) for each in rest):
        (expected,) = expected_shapes_less_imports(text, rest)
        assert body == expected[0]
        assert {name for name, _ in bound} == {name for name, _ in expected[1] | wanted}


def expected_shapes_less_imports(
    text: str, operations: list[PythonOperation]
) -> list[tuple[str, set[tuple[str, str]]]]:
    """As `expected_shapes`, without the imports at the top level, and what they bind."""
    oracle = Oracle(text, operations)
    oracle.expected()
    return [without_imports(oracle.tree)]


def touched(text: str, operations: Iterable[PythonOperation]) -> set[int]:
    """The rows that operations may change: theirs, and the blank lines and comments around."""
    lines = _lines(text)
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt)]
    rows: set[int] = set()
    for operation in operations:
        for start, stop in _ranges(nodes, operation):
            while start > 1 and _is_empty(lines[start - 2]):
                start -= 1
            while stop < len(lines) and _is_empty(lines[stop]):
                stop += 1
            rows |= set(range(start, stop + 1))
    return rows


def _is_empty(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def _ranges(nodes: list[ast.stmt], operation: PythonOperation) -> list[tuple[int, int]]:
    if isinstance(operation, AddImport):
        imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom) and node.col_offset == 0]
        return [(node.lineno, node.end_lineno or node.lineno) for node in imports]
    if isinstance(operation, WrapStatements):
        return [(_first_row(nodes, operation.first), operation.last.end_row)]
    span = operation.span
    at = [node for node in nodes if node.lineno == span.row and getattr(node, "body", None)]
    if isinstance(operation, AddDecorator) and at:
        return [(span.row, min(at[0].body[0].lineno, span.end_row))]  # type: ignore[attr-defined]
    if isinstance(operation, InsertStatement):
        row = _first_row(nodes, span) if operation.where == "before" else span.end_row
        return [(row, row)]
    return [(_first_row(nodes, span), span.end_row)]


def _first_row(nodes: list[ast.stmt], span: Span) -> int:
    """Where the statement at a row begins: at its first decorator."""
    at = [node for node in nodes if node.lineno == span.row]
    return min((each.lineno for node in at for each in (node, *getattr(node, "decorator_list", []))), default=span.row)


@settings(max_examples=examples(70))
@given(st.integers(0, 10**6), st.sampled_from([1, 1, 2, 5]), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_random_operations(seed: int, count: int, newline: str, ended: bool) -> None:
    text = STRANGE.replace("\n", newline) + (newline if ended else "")
    operations = _operations(seed, count, text)
    result = _rewritten(text, operations)
    if result is not None:
        assert_intended(text, result, operations)


# --- files of the repository ------------------------------------------------------------------------------------------

FOLDERS = ("fixtures", "codemod", "transforms", "tests")
LARGEST = 9_000
FILES = 70


def _python_files() -> list[bytes]:
    found = []
    for folder in FOLDERS:
        for path in sorted((REPOSITORY / folder).rglob("*.py")):
            if "crashers" not in path.parts and 0 < path.stat().st_size < LARGEST:
                found.append(path.read_bytes())
    return found


def test_random_operations_on_files_of_the_repository() -> None:
    """In random bytes: CRLF, CR, byte order mark, tabs, Latin-1, no final newline, form feeds."""
    source, files = random.Random(6), _python_files()
    outcomes: Counter[str] = Counter()
    for data in source.sample(files, FILES):
        variant = source.choice(["", *(name for name in VARIANTS if name != "notebook")])
        outcomes[edit_file(data, variant, source)] += 1
    assert outcomes["refused"] < outcomes["edited"] / 4, outcomes
    assert outcomes["edited"] > FILES / 2, outcomes


def edit_file(data: bytes, variant: str, source: random.Random) -> str:
    """Make random edits of one file, as bytes; how it went."""
    try:
        document = Document("a.py", FileKind.PYTHON, VARIANTS[variant](data) if variant else data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            operations = _operations(source.randrange(10**9), source.choice((1, 1, 2, 4)), document.text)
    except (SyntaxError, ValueError, Unreadable):
        return "not Python"
    result = _rewritten(document.text, operations)
    if result is None:
        return "refused"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_intended(document.text, result, operations)
    after = Document("a.py", FileKind.PYTHON, document.encode(result))
    assert (after.text, after.bom, after.encoding) == (result, document.bom, document.encoding)
    return "edited"
