"""Random operations on strange code: the meaning is that of the oracle, the other lines are untouched."""

from __future__ import annotations

import ast
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.model import (
    EditRefused,
    PythonOperation,
    RemoveArgument,
    RemoveStatement,
    Span,
    UnwrapBlock,
    WrapStatements,
)
from precfix.codemod.rewrite import rewrite

from .rewrite_oracle import Chooser, Oracle, comments, shape

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


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from([1, 1, 2, 5]), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_random_operations(seed: int, count: int, newline: str, ended: bool) -> None:
    text = STRANGE.replace("\n", newline) + (newline if ended else "")
    operations = _operations(seed, count, text)
    result = _rewritten(text, operations)
    if result is None:
        return
    assert shape(ast.parse(result)) == Oracle(text, operations).expected()
    if not any(isinstance(each, RemoveStatement | RemoveArgument | UnwrapBlock) for each in operations):
        assert not comments(text) - comments(result)
    if len(operations) == 1:
        _assert_only_its_lines_changed(text, result, operations[0], newline)


def _assert_only_its_lines_changed(text: str, result: str, operation: PythonOperation, newline: str) -> None:
    first = operation.first if isinstance(operation, WrapStatements) else operation.span  # type: ignore[union-attr]
    last = operation.last if isinstance(operation, WrapStatements) else first
    before, after = text.split(newline), result.split(newline)
    start, stop = _first_row(text, first) - 1, last.end_row
    while start and (not before[start - 1].strip() or before[start - 1].lstrip().startswith("#")):
        start -= 1
    while stop < len(before) and (not before[stop].strip() or before[stop].lstrip().startswith("#")):
        stop += 1
    assert after[:start] == before[:start]
    assert after[len(after) - len(before) + stop :] == before[stop:]
    assert result.endswith(newline) == text.endswith(newline)
    if newline != "\n":
        assert "\n" not in result.replace(newline, "")


def _first_row(text: str, span: Span) -> int:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.stmt) and node.lineno == span.row:
            return min(each.lineno for each in (node, *getattr(node, "decorator_list", [])))
    return span.row
