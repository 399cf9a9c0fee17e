"""Removing, inserting and wrapping statements."""

from __future__ import annotations

import pytest
from precfix.codemod.model import (
    EditRefused,
    InsertStatement,
    RemoveStatement,
    ReplaceExpression,
    WrapStatements,
)

from .rewrite_targets import edited, expr, stmt

REMOVED = {
    "with its trailing comment": ("a()\ngo()  # why\nb()\n", "a()\nb()\n"),
    "one of two on a line": ("a(); go(); b()  # c\n", "a(); b()  # c\n"),
    "the last of a line": ("a(); go()  # c\n", "a()  # c\n"),
    "the first of a line keeps the comment above": ("# amp\ngo(); a()\n", "# amp\na()\n"),
    "a line that ends in a semicolon": ("a()\ngo();\nb();\n", "a()\nb();\n"),
    "a comment about it goes": ("a()\n# unscale first\ngo()\nb()\n", "a()\nb()\n"),
    "a comment of two lines goes": ("a()\n# GradScaler for\n# the loss\ngo()\nb()\n", "a()\nb()\n"),
    "another comment stays": ("a()\n# an example of b\ngo()\nb()\n", "a()\n# an example of b\nb()\n"),
    "a comment apart stays": ("a()\n# scaler\n\ngo()\nb()\n", "a()\n# scaler\n\nb()\n"),
    "a pragma stays": ("a()\n# fmt: off amp\ngo()\nb()\n", "a()\n# fmt: off amp\nb()\n"),
    "doubled blank lines collapse": ("a()\n\ngo()\n\nb()\n", "a()\n\nb()\n"),
    "the larger gap stays": ("a()\n\ngo()\n\n\ndef b(): pass\n", "a()\n\n\ndef b(): pass\n"),
    "paragraphs stay apart": ("a()\n\ngo()\nb()\n", "a()\n\nb()\n"),
    "paragraphs stay apart below": ("a()\ngo()\n\nb()\n", "a()\n\nb()\n"),
    "the first statement": ("go()\n\n\nb()\n", "b()\n"),
    "below the file's header": ("#!/usr/bin/env python\n# amp license\ngo()\n\nb()\n", None),
    "header and first statement apart": ("# license\n\ngo()\n\nb()\n", "# license\n\nb()\n"),
    "the only statement of a file": ("# license\ngo()\n", "# license\n"),
    "the last statement of a file": ("a()\n\n\ngo()\n", "a()\n"),
    "without a newline at the end": ("a()\ngo()", "a()"),
    "an emptied block": ("if x:\n    # about it\n    go()\nb()\n", "if x:\n    pass\nb()\n"),
    "an emptied block with comments": (
        "if x:\n    # one\n\n    go()\n    # two\nb()\n",
        "if x:\n    # one\n\n    pass\n    # two\nb()\n",
    ),
    "an emptied block on one line": ("if x: go()\nb()\n", "if x: pass\nb()\n"),
    "one of a block on one line": ("if x: a(); go()\n", "if x: a()\n"),
    "the last of a block": ("if x:\n    a()\n\n    go()\nb()\n", "if x:\n    a()\nb()\n"),
    "the last of a block before a comment": (
        "if x:\n    a()\n\n    go()\n\n    # tail\nb()\n",
        "if x:\n    a()\n\n    # tail\nb()\n",
    ),
    "the first of a block": ("if x:\n    go()\n\n    b()\n", "if x:\n    b()\n"),
    "with tabs": ("if x:\n\tgo()\n\tb()\n", "if x:\n\tb()\n"),
    "with CRLF": ("a()\r\ngo()\r\nb()\r\n", "a()\r\nb()\r\n"),
    "with mixed newlines": ("a()\r\ngo()\nb()\rc()\n", "a()\r\nb()\rc()\n"),
    "with CR": ("a()\rgo()\rb()\r", "a()\rb()\r"),
    "after a page break": ("a()\n\x0c\ngo()\nb()\n", "a()\n\x0c\nb()\n"),
    "over several lines": ("a()\ngo(\n    x,\n)\nb()\n", "a()\nb()\n"),
    "with a backslash": ("a()\ngo() + \\\n    x\nb()\n", "a()\nb()\n"),
    "in a match": ("match x:\n    case 1:\n        go()\n", "match x:\n    case 1:\n        pass\n"),
}


@pytest.mark.parametrize("name", REMOVED)
def test_remove_statement(name: str) -> None:
    before, after = REMOVED[name]
    expected = "#!/usr/bin/env python\n# amp license\n\nb()\n" if after is None else after
    assert edited(before, RemoveStatement(stmt(before, "go("))) == expected


def test_remove_compound_and_what_is_inside() -> None:
    before = "a()\n@d\nasync def f():\n    go()\n\n\nb()\n"
    inner = RemoveStatement(stmt(before, "go()"))
    assert edited(before, RemoveStatement(stmt(before, "async def")), inner) == "a()\n\n\nb()\n"


def test_remove_all_of_a_block_and_the_block() -> None:
    before = "if x:\n    go()\n    b()\nc()\n"
    operations = [RemoveStatement(stmt(before, start)) for start in ("go()", "b()")]
    assert edited(before, *operations) == "if x:\n    pass\nc()\n"
    assert edited(before, *operations, RemoveStatement(stmt(before, "if"))) == "c()\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("if a:\n    x\nelif b:\n    y\nelse:\n    z\n", "if a:\n    x\n"),
        ("if a:\n    x\nelif c:\n    w\nelif b:\n    y\n", "if a:\n    x\nelif c:\n    w\n"),
    ],
)
def test_remove_elif(before: str, after: str) -> None:
    assert edited(before, RemoveStatement(stmt(before, "elif b"))) == after


INSERTED = {
    "before": ("a()\n# c\ngo()  # d\nb()\n", "before", "a()\n# c\nnew()\ngo()  # d\nb()\n"),
    "after": ("a()\ngo()  # d\n\nb()\n", "after", "a()\ngo()  # d\nnew()\n\nb()\n"),
    "in a block": ("if x:\n\tgo()\n", "after", "if x:\n\tgo()\n\tnew()\n"),
    "into a shared line": ("a(); go(); b()  # c\n", "before", "a()\nnew()\ngo(); b()  # c\n"),
    "after in a shared line": ("a(); go(); b()  # c\n", "after", "a(); go()\nnew()\nb()  # c\n"),
    "into a block on one line": ("if x: go()  # c\nb()\n", "before", "if x:\n    new()\n    go()  # c\nb()\n"),
    "with CRLF": ("a()\r\ngo()\r\n", "after", "a()\r\ngo()\r\nnew()\r\n"),
    "at the end without a newline": ("a()\ngo()", "after", "a()\ngo()\nnew()"),
    "first in a file": ("# license\n\ngo()\n", "before", "# license\n\nnew()\ngo()\n"),
}


@pytest.mark.parametrize("name", INSERTED)
def test_insert(name: str) -> None:
    before, where, after = INSERTED[name]
    assert edited(before, InsertStatement(stmt(before, "go()"), "new()", where)) == after


def test_insert_a_block_in_the_files_own_units() -> None:
    before = "def f():\r\n  go()\r\n"
    text = "# why\nif a:\n    s = '''x\n    y'''\n    b()\n"
    after = "def f():\r\n  # why\r\n  if a:\r\n    s = '''x\r\n    y'''\r\n    b()\r\n  go()\r\n"
    assert edited(before, InsertStatement(stmt(before, "go()"), text)) == after


def test_insert_in_place_of_a_removed_statement() -> None:
    before = "a()\n# the scaler\ngo()  # c\nb()\n"
    target = stmt(before, "go()")
    assert edited(before, RemoveStatement(target), InsertStatement(target, "new()")) == "a()\nnew()\nb()\n"
    before = "if x: go()\n"
    target = stmt(before, "go()")
    assert edited(before, RemoveStatement(target), InsertStatement(target, "new()", "after")) == "if x: new()\n"


def test_insert_beside_a_call_that_is_edited() -> None:
    before = "go(x)\n"
    edit = ReplaceExpression(expr(before, "go(x)"), ("come(", expr(before, "x"), ")"))
    assert edited(before, InsertStatement(stmt(before, "go"), "a()"), edit) == "a()\ncome(x)\n"


@pytest.mark.parametrize(
    ("before", "start"),
    [
        ('"""doc"""\nx\n', '"""doc'),
        ("from __future__ import annotations\nx\n", "from"),
        ("def f():\n    'doc'\n", "'doc'"),
        ("if a:\n    x\nelif b:\n    y\n", "elif"),
    ],
)
def test_insert_refused(before: str, start: str) -> None:
    with pytest.raises(EditRefused):
        edited(before, InsertStatement(stmt(before, start), "new()"))


@pytest.mark.parametrize("text", ["", "# only a comment", "if x:", "a()\n# end", "return (", "    a()"])
def test_insert_refuses_what_is_no_statement(text: str) -> None:
    with pytest.raises(EditRefused):
        edited("go()\n", InsertStatement(stmt("go()\n", "go()"), text))


WRAPPED = {
    "two statements": (
        "a()\n\n# c\nfirst()  # d\n\nlast()\n# e\nb()\n",
        "a()\n\nwith k:\n    # c\n    first()  # d\n\n    last()\n# e\nb()\n",
    ),
    "with tabs": ("def f():\n\tfirst()\n\tlast()\n", "def f():\n\twith k:\n\t\tfirst()\n\t\tlast()\n"),
    "a string over lines": (
        "first('''\n  x\n''')\nlast(\n    1\n)\n",
        "with k:\n    first('''\n  x\n''')\n    last(\n        1\n    )\n",
    ),
    "parts of lines": ("a(); first()\nlast(); b()  # c\n", "a()\nwith k:\n    first()\n    last()\nb()  # c\n"),
    "on one line": ("if x: first(); last()\n", "if x:\n    with k:\n        first(); last()\n"),
    "with CRLF": ("first()\r\nlast()\r\n", "with k:\r\n    first()\r\n    last()\r\n"),
    "below a license": ("# license\n\nfirst()\nlast()\n", "# license\n\nwith k:\n    first()\n    last()\n"),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_wrap(name: str) -> None:
    before, after = WRAPPED[name]
    assert edited(before, WrapStatements(stmt(before, "first("), stmt(before, "last("), "with k:")) == after


def test_wrap_and_other_edits() -> None:
    before = "first()\ngo()\nlast(x)\nb()\n"
    operations = (
        WrapStatements(stmt(before, "first"), stmt(before, "last"), "with k:"),
        WrapStatements(stmt(before, "go"), stmt(before, "last"), "if a:"),
        RemoveStatement(stmt(before, "go")),
        ReplaceExpression(expr(before, "x"), ("y",)),
        InsertStatement(stmt(before, "first"), "out()"),
        InsertStatement(stmt(before, "last"), "end()", "after"),
    )
    assert edited(before, *operations) == "out()\nwith k:\n    first()\n    if a:\n        last(y)\nend()\nb()\n"


@pytest.mark.parametrize(
    ("before", "first", "last", "header"),
    [
        ('"""doc"""\nx\n', '"""doc', "x", "with k:"),
        ("x\nif a:\n    y\n", "x", "y", "with k:"),
        ("y\nx\n", "x", "y", "with k:"),
        ("x\ny\n", "x", "y", "k()"),
        ("x\ny\n", "x", "y", "with k"),
    ],
)
def test_wrap_refused(before: str, first: str, last: str, header: str) -> None:
    with pytest.raises(EditRefused):
        edited(before, WrapStatements(stmt(before, first), stmt(before, last), header))
