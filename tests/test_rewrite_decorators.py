"""Decorating functions: the rewriter's AddDecorator."""

from __future__ import annotations

import pytest
from precfix.codemod.model import AddDecorator, EditRefused, RemoveStatement, ReplaceExpression

from .rewrite_targets import edited, expr, stmt

CASES = {
    "bare": ("def f(): pass\n", "@g\ndef f(): pass\n"),
    "below another": (
        "class A:\n    # a\n    @staticmethod  # s\n    def f(x):\n        return x\n",
        "class A:\n    # a\n    @staticmethod  # s\n    @g\n    def f(x):\n        return x\n",
    ),
    "async, CRLF, tabs": (
        "class A:\r\n\tasync def f(x):\r\n\t\treturn x\r\n",
        "class A:\r\n\t@g\r\n\tasync def f(x):\r\n\t\treturn x\r\n",
    ),
    "type comment": (
        "def f(a):\n    # type: (int) -> int\n    return a\n",
        "@g\ndef f(a):\n    # type: (int) -> int\n    return a\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_add_decorator(name: str) -> None:
    before, after = CASES[name]
    start = "async def" if "async" in before else "def"
    assert edited(before, AddDecorator(stmt(before, start), "g")) == after


def test_with_other_edits_of_the_function() -> None:
    text = "@a\ndef f():\n    return x\n"
    body = ReplaceExpression(expr(text, "x"), ("y",))
    assert edited(text, AddDecorator(stmt(text, "def"), "b(c=1)"), body) == "@a\n@b(c=1)\ndef f():\n    return y\n"


def test_a_removed_function_is_not_decorated() -> None:
    text = "def f(): pass\nx = 1\n"
    assert edited(text, AddDecorator(stmt(text, "def"), "g"), RemoveStatement(stmt(text, "def"))) == "x = 1\n"


@pytest.mark.parametrize(("text", "start"), [("x = 1\n", "x"), ("class A: pass\n", "class")])
def test_only_functions(text: str, start: str) -> None:
    with pytest.raises(EditRefused, match="no function"):
        edited(text, AddDecorator(stmt(text, start), "g"))


def test_must_be_an_expression() -> None:
    text = "def f(): pass\n"
    with pytest.raises(EditRefused, match="not an expression"):
        edited(text, AddDecorator(stmt(text, "def"), "g\nh"))
