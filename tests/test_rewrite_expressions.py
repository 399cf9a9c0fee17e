"""Replacing expressions, and adding or removing arguments and parameters."""

from __future__ import annotations

import ast

import pytest
from precfix.codemod.model import (
    EditRefused,
    InsertArgument,
    NameArgument,
    RemoveArgument,
    RemoveStatement,
    ReplaceExpression,
    SetArgument,
    Span,
)

from .rewrite_targets import call, code, edited, expr, stmt


@pytest.mark.parametrize(
    ("kept", "result"),
    [
        ("loss", "loss.b()"),
        ("a if c else d", "(a if c else d).b()"),
        ("a or c", "(a or c).b()"),
        ("not a", "(not a).b()"),
        ("a + c", "(a + c).b()"),
        ("-a", "(-a).b()"),
        ("lambda: 0", "(lambda: 0).b()"),
        ("1", "(1).b()"),
        ("1.0", "1.0.b()"),
        ("f(a)[0]", "f(a)[0].b()"),
        ("'a' 'c'", "'a' 'c'.b()"),
        ("[x for x in y]", "[x for x in y].b()"),
        ("(a, c)", "(a, c).b()"),
        ("(x for x in y)", "(x for x in y).b()"),
        ("x := 1", "(x := 1).b()"),
        ("()", "().b()"),
        ("((a, c), d)", "((a, c), d).b()"),
        ("a < c", "(a < c).b()"),
    ],
)
def test_kept_part_before_a_dot(kept: str, result: str) -> None:
    before = f"s.scale({kept}).b()\n"
    whole = expr(before, before.strip())
    assert edited(before, ReplaceExpression(whole, (expr(before, kept), ".b()"))) == result + "\n"


@pytest.mark.parametrize(
    ("kept", "parts", "result"),
    [
        ("a or b", ("", " == c"), "(a or b) == c"),
        ("a == b", ("", " == c"), "(a == b) == c"),
        ("a + b", ("", " == c"), "a + b == c"),
        ("a and b", ("not ", ""), "not (a and b)"),
        ("a + b", ("2 * ", ""), "2 * (a + b)"),
        ("a * b", ("2 - ", ""), "2 - a * b"),
        ("a - b", ("2 - ", ""), "2 - (a - b)"),
        ("-a", ("", " ** 2"), "(-a) ** 2"),
        ("a ** b", ("-", ""), "-a ** b"),
        ("lambda: 0", ("", " if a else b"), "(lambda: 0) if a else b"),
        ("lambda: 0", ("a if b else ", ""), "a if b else lambda: 0"),
        ("x if y else z", ("lambda: ", ""), "lambda: x if y else z"),
        ("a if b else c", ("[i for i in ", "]"), "[i for i in (a if b else c)]"),
        ("a if b else c", ("g(k=", ")"), "g(k=a if b else c)"),
        ("a if b else c", ("g(*", ")"), "g(*a if b else c)"),
        ("a if b else c", ("x[", "]"), "x[a if b else c]"),
        ("x := 1", ("g(", ")"), "g((x := 1))"),
        ("x", ("(", ").y"), "(x).y"),
        ("(x for x in y)", ("g(", ", 1)"), "g((x for x in y), 1)"),
        ("a if b else c", ("f'{", "}'"), "f'{a if b else c}'"),
        ("{1: 2}", ("f'{", "}'"), "f'{({1: 2})}'"),
    ],
)
def test_kept_part_in_new_surroundings(kept: str, parts: tuple[str, str], result: str) -> None:
    before = f"v = f({kept}, )\n" if not kept.startswith("(") else f"v = f({kept})\n"
    whole = call(before, "f(")
    after = edited(before, ReplaceExpression(whole, (parts[0], expr(before, kept), parts[1])))
    assert after == f"v = {result}\n"


@pytest.mark.parametrize(
    ("before", "target", "new", "after"),
    [
        ("x = f(a).b\n", "f(a)", "p or q", "x = (p or q).b\n"),
        ("x = f(a) * 2\n", "f(a)", "p + q", "x = (p + q) * 2\n"),
        ("x = (f(a)).b\n", "f(a)", "p or q", "x = (p or q).b\n"),
        ("x = not f(a)\n", "f(a)", "p == q", "x = not p == q\n"),
        ("x = f(a)\n", "f(a)", "p, q", "x = p, q\n"),
        ("x = g(f(a))\n", "f(a)", "p, q", "x = g((p, q))\n"),
        ("return_ = [f(a)]\n", "f(a)", "p if q else r", "return_ = [p if q else r]\n"),
        ("def f():\n    return(a).b\n", "(a).b", "q", "def f():\n    return(q)\n"),
        ("x = (a)if(b)else(c)\n", "b", "q", "x = (a)if(q)else(c)\n"),
        ("x = [a]if[b]else[c]\n", "[b]", "q", "x = [a]if(q)else[c]\n"),
        ("for i in(a, b): pass\n", "(a, b)", "q", "for i in(q): pass\n"),
        ("x = a,\n", "a", "b if c else d", "x = b if c else d,\n"),
        ("@f(a)\ndef g(): pass\n", "f(a)", "h", "@h\ndef g(): pass\n"),
        ("with f(a) as b, c: pass\n", "f(a)", "h", "with h as b, c: pass\n"),
        ("with (f(a) as b, c): pass\n", "f(a)", "h", "with (h as b, c): pass\n"),
        ("k = lambda: f(a)\n", "f(a)", "h", "k = lambda: h\n"),
        ("k: int = f(a)  # type: ignore\n", "f(a)", "h", "k: int = h  # type: ignore\n"),
        ("match f(a):\n    case 1: pass\n", "f(a)", "h", "match h:\n    case 1: pass\n"),
        ("x = 'é' + f('ü', a)\n", "f('ü', a)", "h", "x = 'é' + h\n"),
        ("x = 'a' \\\n  'b'\n", "'a' \\\n  'b'", "c", "x = c\n"),
        ("f(a)[1, 2]\n", "f(a)", "h", "h[1, 2]\n"),
        ("async def g():\n    return await f(a)\n", "f(a)", "p or q", "async def g():\n    return await (p or q)\n"),
        ("if (n := f(a)): pass\n", "f(a)", "h", "if (n := h): pass\n"),
        ("x = f'{f(a)}'\n", "f(a)", "h", "x = f'{h}'\n"),
    ],
)
def test_new_expression_in_its_place(before: str, target: str, new: str, after: str) -> None:
    assert edited(before, ReplaceExpression(expr(before, target), (new,))) == after


def test_kept_newlines_and_comments() -> None:
    before = code(
        """
        x = f(  # scaled
            a
            # deep
            + b  # b
        )
        """
    )
    after = "# scaled\n# b\nx = (a\n    # deep\n    + b)\n"
    assert edited(before, ReplaceExpression(call(before, "f("), (Span(2, 5, 4, 8),))) == after
    before = "x = g(f(\n    a +\n    b))\n"
    assert edited(before, ReplaceExpression(call(before, "f("), (Span(2, 5, 3, 6),))) == "x = g(a +\n    b)\n"


def test_kept_newlines_in_a_template() -> None:
    before = "s.scale(\n    a\n    + b\n).b()\n"
    operation = ReplaceExpression(call(before, "s.scale"), (Span(2, 5, 3, 8), ".b()"))
    assert edited(before, operation) == "(a\n    + b).b()\n"


def test_nested_replacements() -> None:
    before = "x = outer(inner(a), inner(b))\n"
    operations = (
        ReplaceExpression(call(before, "outer"), (expr(before, "inner(a)"), " + ", expr(before, "inner(b)"))),
        ReplaceExpression(expr(before, "inner(a)"), (expr(before, "a"), " or 1")),
        ReplaceExpression(expr(before, "b"), ("c",)),
    )
    assert edited(before, *operations) == "x = (a or 1) + inner(c)\n"


def test_wrapping_an_edited_call() -> None:
    before = "x = f(a)\n"
    target = expr(before, "f(a)")
    operations = (ReplaceExpression(target, ("g(", target, ")")), SetArgument(target, "k", "1"))
    assert edited(before, *operations) == "x = g(f(a, k=1))\n"


def test_starred_part() -> None:
    before = "f(*a, b)\n"
    parts = ("g(", expr(before, "*a"), ", ", expr(before, "b"), ")")
    assert edited(before, ReplaceExpression(expr(before, "f(*a, b)"), parts)) == "g(*a, b)\n"


def test_generator_argument_is_kept_with_its_brackets() -> None:
    before = "sum(x for x in y)\n"
    kept = expr(before, "(x for x in y)")
    assert edited(before, ReplaceExpression(call(before, "sum"), ("g(", kept, ", 1)"))) == "g((x for x in y), 1)\n"


def _contradictions() -> list[tuple[str, tuple[object, ...]]]:
    text = "f(g(a), k=h(b))\n"
    whole, inner = call(text, "f("), call(text, "g(")
    return [
        (text, (ReplaceExpression(whole, ("x",)), ReplaceExpression(whole, ("y",)))),
        (text, (ReplaceExpression(whole, ("x",)), ReplaceExpression(inner, ("y",)))),
        (text, (ReplaceExpression(whole, ("x",)), SetArgument(whole, "k", "1"))),
        (text, (SetArgument(whole, "k", "1"), SetArgument(whole, "k", "2"))),
        (text, (SetArgument(whole, "k", "1"), RemoveArgument(whole, "k"))),
        (text, (SetArgument(whole, "k", "1"), ReplaceExpression(expr(text, "b"), ("c",)))),
        (text, (ReplaceExpression(whole, ("x +",)),)),
        (text, (ReplaceExpression(whole, ("x; y",)),)),
        (text, (ReplaceExpression(inner, ("x", whole)),)),
        (text, (ReplaceExpression(Span(1, 1, 1, 2000), ("x",)),)),
        (text, (ReplaceExpression(Span(9, 1, 9, 2), ("x",)),)),
        (text, (SetArgument(expr(text, "a"), "k", "1"),)),
        (text, (SetArgument(whole, "not", "1"),)),
        (text, (SetArgument(whole, "k", "1 +"),)),
        (text, (RemoveArgument(whole, 1),)),
        (text, (RemoveArgument(whole, "z"),)),
        ("f(*a, b)\n", (RemoveArgument(call("f(*a, b)\n", "f("), 1),)),
        ("f(**k)\n", (SetArgument(call("f(**k)\n", "f("), "a", "1"),)),
    ]


@pytest.mark.parametrize("number", range(18))
def test_contradictions_are_refused(number: int) -> None:
    text, operations = _contradictions()[number]
    with pytest.raises(EditRefused):
        edited(text, *operations)  # type: ignore[arg-type]


def test_identical_operations_are_one() -> None:
    before = "f(a)\n"
    operation = ReplaceExpression(expr(before, "a"), ("b",))
    assert edited(before, operation, operation) == "f(b)\n"


def test_an_edit_of_a_removed_statement_is_absorbed() -> None:
    before = "f(a)\nb\n"
    gone = RemoveStatement(stmt(before, "f("))
    edit = ReplaceExpression(expr(before, "f(a)"), ("x",))
    assert edited(before, gone, edit, SetArgument(expr(before, "f(a)"), "k", "1")) == "b\n"


# --- arguments --------------------------------------------------------------------------------------------------------

SET = {
    "present": ("f(a, k = old, b=1)\n", "f(a, k = new, b=1)\n"),
    "present beside **": ("f(k=old, **kw)\n", "f(k=new, **kw)\n"),
    "appended": ("f(a, b)\n", "f(a, b, k=new)\n"),
    "only": ("f()\n", "f(k=new)\n"),
    "only with a space": ("f( )\n", "f(k=new)\n"),
    "after *": ("f(*a)\n", "f(*a, k=new)\n"),
    "trailing comma": ("f(a,)\n", "f(a, k=new,)\n"),
    "parenthesised argument": ("f((a))\n", "f((a), k=new)\n"),
    "implicit concatenation": ("f('a'\n  'b')\n", "f('a'\n  'b', k=new)\n"),
    "generator": ("f(x for x in y)\n", "f((x for x in y), k=new)\n"),
    "one per line": ("f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n    k=new,\n)\n"),
    "one per line, no last comma": ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    k=new\n)\n"),
    "one line alone": ("f(\n    a\n)\n", "f(\n    a,\n    k=new\n)\n"),
    "comments": ("f(\n    a,  # a\n    b  # b\n    # c\n)\n", "f(\n    a,  # a\n    b,  # b\n    # c\n    k=new\n)\n"),
    "comments and comma": (
        "f(\n    a,  # a\n    b,  # b\n    # c\n)\n",
        "f(\n    a,  # a\n    b,  # b\n    # c\n    k=new,\n)\n",
    ),
    "aligned": ("f(a,\n  b)\n", "f(a,\n  b,\n  k=new)\n"),
    "filled lines": ("f(a, b,\n  c, d)\n", "f(a, b,\n  c, d, k=new)\n"),
    "comment in empty brackets": ("f(\n    # none\n)\n", "f(\n    # none\n    k=new,\n)\n"),
    "comment after the bracket": ("f(  # none\n)\n", "f(  # none\n    k=new,\n)\n"),
    "comment after the last on its line": ("f(a,  # a\n)\n", "f(a, k=new,  # a\n)\n"),
    "in a block": ("if x:\n    f(\n        a,\n    )\n", "if x:\n    f(\n        a,\n        k=new,\n    )\n"),
    "CRLF": ("f(\r\n    a,\r\n)\r\n", "f(\r\n    a,\r\n    k=new,\r\n)\r\n"),
    "tabs": ("if x:\n\tf(\n\t\ta,\n\t)\n", "if x:\n\tf(\n\t\ta,\n\t\tk=new,\n\t)\n"),
    "backslash": ("f(a, \\\n  b)\n", "f(a, \\\n  b, k=new)\n"),
    "a hugged list": ("f([\n    a,\n])\n", "f([\n    a,\n], k=new)\n"),
}


@pytest.mark.parametrize("name", SET)
def test_set_argument(name: str) -> None:
    before, after = SET[name]
    assert edited(before, SetArgument(call(before, "f("), "k", "new")) == after


def test_set_several_arguments_of_nested_calls() -> None:
    before = "f(g(a))\n"
    outer, inner = call(before, "f("), call(before, "g(")
    operations = (SetArgument(outer, "k", "1"), SetArgument(inner, "k", "2"), SetArgument(outer, "l", "(x := 3)"))
    assert edited(before, *operations) == "f(g(a, k=2), k=1, l=(x := 3))\n"


REMOVED_ARGUMENTS: dict[str, tuple[str, str | int, str]] = {
    "only": ("f(k=1)\n", "k", "f()\n"),
    "first": ("f(a, b)\n", 0, "f(b)\n"),
    "last": ("f(a, k=1)\n", "k", "f(a)\n"),
    "middle": ("f(a, k=1, b=2)\n", "k", "f(a, b=2)\n"),
    "before **": ("f(k=1, **kw)\n", "k", "f(**kw)\n"),
    "trailing comma": ("f(a, k=1,)\n", "k", "f(a,)\n"),
    "only with a comma": ("f(k=1,)\n", "k", "f()\n"),
    "one per line": ("f(\n    a,\n    k=1,\n    b=2,\n)\n", "k", "f(\n    a,\n    b=2,\n)\n"),
    "last of one per line": ("f(\n    a,  # a\n    k=1,  # k\n)\n", "k", "f(\n    a,  # a\n)\n"),
    "last without comma": ("f(\n    a,  # a\n    k=1  # k\n)\n", "k", "f(\n    a  # a\n)\n"),
    "first of one per line": ("f(\n    k=1,  # k\n    # b\n    b=2,\n)\n", "k", "f(\n    # b\n    b=2,\n)\n"),
    "comment above stays": ("f(\n    a,\n    # other\n    k=1,\n)\n", "k", "f(\n    a,\n    # other\n)\n"),
    "comment about it goes": ("f(\n    a,\n    # amp\n    k=1,\n    b=2,\n)\n", "k", "f(\n    a,\n    b=2,\n)\n"),
    "only of one per line": ("f(\n    k=1,\n)\n", "k", "f()\n"),
    "only with a comment": ("f(  # why\n    k=1,\n)\n", "k", "f(  # why\n)\n"),
    "end of a line": ("f(a, k=1,\n  b=2)\n", "k", "f(a,\n  b=2)\n"),
    "start of a line": ("f(a,\n  k=1, b=2)\n", "k", "f(a,\n  b=2)\n"),
    "aligned first": ("f(k=1,\n  b=2)\n", "k", "f(b=2)\n"),
    "aligned last": ("f(a,\n  k=1)\n", "k", "f(a)\n"),
    "parenthesised": ("f((a), (k))\n", 1, "f((a))\n"),
    "spaces": ("f( a, k = 1 )\n", "k", "f( a )\n"),
    "CRLF": ("f(\r\n    a,\r\n    k=1,\r\n)\r\n", "k", "f(\r\n    a,\r\n)\r\n"),
}


@pytest.mark.parametrize("name", REMOVED_ARGUMENTS)
def test_remove_argument(name: str) -> None:
    before, argument, after = REMOVED_ARGUMENTS[name]
    assert edited(before, RemoveArgument(call(before, "f("), argument)) == after


def test_remove_several_arguments() -> None:
    before = "f(a, b, c, k=1, l=g(2))\n"
    target = call(before, "f(")
    operations = [RemoveArgument(target, each) for each in (0, 2, "k")]
    assert edited(before, *operations) == "f(b, l=g(2))\n"
    assert edited(before, *operations, SetArgument(target, "m", "1")) == "f(b, l=g(2), m=1)\n"
    inner = ReplaceExpression(expr(before, "2"), ("3",))
    assert edited(before, RemoveArgument(target, "l"), inner) == "f(a, b, c, k=1)\n"


NAMED: dict[str, tuple[str, str | int, str]] = {
    "by position": ("f(a, b)\n", 1, "f(a, n=b)\n"),
    "a keyword": ("f(a, k = 1, b=2)\n", "k", "f(a, n = 1, b=2)\n"),
    "one per line": ("f(\n    a,  # a\n    b=1,\n)\n", 0, "f(\n    n=a,  # a\n    b=1,\n)\n"),
    "a generator alone": ("f(a for a in b)\n", 0, "f(n=(a for a in b))\n"),
}


@pytest.mark.parametrize("name", NAMED)
def test_name_argument(name: str) -> None:
    before, argument, after = NAMED[name]
    assert edited(before, NameArgument(call(before, "f("), argument, "n")) == after


INSERTED: dict[str, tuple[str, int, str]] = {
    "none": ("f()\n", 0, "f(new)\n"),
    "first": ("f(a, k=1)\n", 0, "f(new, a, k=1)\n"),
    "second": ("f(a, k=1)\n", 1, "f(a, new, k=1)\n"),
    "last": ("f(a)\n", 1, "f(a, new)\n"),
    "before **": ("f(**k)\n", 0, "f(new, **k)\n"),
    "one per line": ("f(\n    a,  # a\n)\n", 0, "f(\n    new,\n    a,  # a\n)\n"),
    "comment after the bracket": ("f(  # why\n    a,\n)\n", 0, "f(  # why\n    new,\n    a,\n)\n"),
    "comment in empty brackets": ("f(\n    # none\n)\n", 0, "f(\n    # none\n    new,\n)\n"),
    "aligned": ("f(a,\n  b)\n", 0, "f(new, a,\n  b)\n"),
    "a generator alone": ("f(a for a in b)\n", 0, "f(new, (a for a in b))\n"),
    "CRLF": ("f(\r\n    a,\r\n)\r\n", 0, "f(\r\n    new,\r\n    a,\r\n)\r\n"),
}


@pytest.mark.parametrize("name", INSERTED)
def test_insert_argument(name: str) -> None:
    before, index, after = INSERTED[name]
    assert edited(before, InsertArgument(call(before, "f("), index, "new")) == after


def test_all_that_can_happen_to_arguments_at_once() -> None:
    before = "f(a, b, c, k=1)\n"
    target = call(before, "f(")
    named, gone = NameArgument(target, 2, "n"), RemoveArgument(target, "k")
    inserted, changed = InsertArgument(target, 0, "new"), ReplaceExpression(expr(before, "b"), ("d",))
    assert edited(before, named, gone, inserted, changed, SetArgument(target, "m", "2")) == "f(new, a, d, n=c, m=2)\n"


# --- the file as a whole ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["x = (\n", "x = 1\0\n", "\x0cx = f(a)\n", "x\n\\\nf(a)\n", "\ud800"])
def test_a_file_that_does_not_print_back_is_refused(text: str) -> None:
    with pytest.raises(EditRefused):
        edited(text, ReplaceExpression(Span(1, 1, 1, 2), ("y",)))


def test_no_operation_is_no_change() -> None:
    assert edited("not python") == "not python"


def test_an_edit_that_would_not_compile_is_refused() -> None:
    before = "f(a=1, b=2)\nfor x in y: pass\n"
    with pytest.raises(EditRefused):
        edited(before, ReplaceExpression(expr(before, "x"), ("1",)))
    with pytest.raises(EditRefused):
        edited(before, ReplaceExpression(expr(before, "f(a=1, b=2)"), ("f(a=1, a=2)",)))


def test_a_tuple_does_not_become_the_items_of_a_with_statement() -> None:
    text = "with a:\n    pass\nwith (a):\n    pass\nwith a as b:\n    pass\nwith a, b:\n    pass\n"
    spans = [expr(text, "a", number) for number in range(4)]
    result = edited(text, *(ReplaceExpression(span, ("(", span, ", 1)")) for span in spans))
    statements = [node for node in ast.parse(result).body if isinstance(node, ast.With)]
    assert [ast.unparse(node.items[0].context_expr) for node in statements] == ["(a, 1)"] * 4
    assert result.startswith("with ((a, 1)):")
