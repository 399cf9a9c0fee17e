"""Documents: bytes to text and back, rows and columns, syntax trees."""

from __future__ import annotations

import ast
import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st
from precfix.codemod.model import EditRefused, Span
from precfix.codemod.source.documents import Document, FileKind, Unparsable, Unreadable, kind_of


def python(data: bytes | str) -> Document:
    return Document("a.py", FileKind.PYTHON, data.encode() if isinstance(data, str) else data)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a/train.py", FileKind.PYTHON),
        ("a/train.pyi", None),
        ("n.ipynb", FileKind.NOTEBOOK),
        ("c.YAML", FileKind.YAML),
        ("c.yml", FileKind.YAML),
        ("c.jsonc", FileKind.JSON),
        ("pyproject.toml", FileKind.TOML),
        ("run.sbatch", FileKind.SHELL),
        ("sub/Makefile", FileKind.SHELL),
        ("Dockerfile", FileKind.SHELL),
        ("Dockerfile.gpu", FileKind.SHELL),
        (".env", FileKind.ENV),
        (".env.local", FileKind.ENV),
        ("train.env", FileKind.ENV),
        (".envrc", None),
        ("requirements.txt", FileKind.TEXT),
        ("setup.cfg", FileKind.TEXT),
        ("model.safetensors", None),
        ("noext", None),
    ],
)
def test_kind_is_judged_by_name(name: str, kind: FileKind | None) -> None:
    assert kind_of(name) is kind


@pytest.mark.parametrize(
    ("data", "encoding", "bom", "text"),
    [
        (b"x = '\xc3\xa9'\n", "utf-8", b"", "x = 'é'\n"),
        (codecs.BOM_UTF8 + b"x = 1\n", "utf-8", codecs.BOM_UTF8, "x = 1\n"),
        (codecs.BOM_UTF8 + b"# coding: utf-8\nx = 1", "utf-8", codecs.BOM_UTF8, "# coding: utf-8\nx = 1"),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "iso-8859-1", b"", "# -*- coding: latin-1 -*-\nx = 'é'\n"),
        (b"#!/bin/python\n# vim: set fileencoding=cp1252 :\nx = '\x80'", "cp1252", b"", None),
        (b"#!/bin/python\r# coding: cp1252\rx = '\x80'", "cp1252", b"", None),
        (b"", "utf-8", b"", ""),
        (b"x = '" + "é".encode() * 4000 + b"'", "utf-8", b"", None),
        (b"x = 1" + b" " * 5000 + b"\n# coding: cp1252\n", "utf-8", b"", None),
    ],
)
def test_python_encodings(data: bytes, encoding: str, bom: bytes, text: str | None) -> None:
    document = python(data)
    assert (document.encoding, document.bom) == (encoding, bom)
    if text is not None:
        assert document.text == text
    assert isinstance(document.tree, ast.Module)
    changed = document.with_text(document.text.replace("x", "longer") + "# end")
    assert changed.data == data.replace(b"x", b"longer") + b"# end"
    assert document.encode(document.text) == data


@pytest.mark.parametrize(
    "data",
    [
        b"x = '\xe9'\n",
        b"# coding: no-such-codec\nx = 1\n",
        b"# coding: rot13\nk = 1\n",
        b"# coding: hex\n6162\n",
        "x = 1\n".encode("utf-16"),
        codecs.BOM_UTF8 + b"# coding: latin-1\nx = 1\n",
        b"# coding: ascii\nx = '\xe9'\n",
    ],
)
def test_python_with_an_invalid_encoding_is_unreadable(data: bytes) -> None:
    with pytest.raises(Unreadable):
        python(data)


@pytest.mark.parametrize(
    ("data", "encoding", "text"),
    [
        (b"a: \xe9\n", "iso-8859-1", "a: é\n"),
        (codecs.BOM_UTF16_LE + "a: é\r\n".encode("utf-16-le"), "utf-16-le", "a: é\r\n"),
        (codecs.BOM_UTF32_LE + "a".encode("utf-32-le"), "utf-32-le", "a"),
        (codecs.BOM_UTF8 + b"a: 1", "utf-8", "a: 1"),
    ],
)
def test_configuration_encodings_survive_a_change(data: bytes, encoding: str, text: str) -> None:
    document = Document("a.yaml", FileKind.YAML, data)
    assert (document.encoding, document.text) == (encoding, text)
    changed = document.with_text(text + "b")
    assert changed.data == data + "b".encode(encoding)
    assert changed.text == text + "b"


def test_binary_text_file_is_unreadable() -> None:
    with pytest.raises(Unreadable, match="NUL"):
        Document("a.txt", FileKind.TEXT, b"\x00\x01")


def test_text_that_the_encoding_cannot_hold_is_refused() -> None:
    document = python(b"# coding: latin-1\nx = 1\n")
    with pytest.raises(EditRefused):
        document.encode(document.text + "# \u20ac\n")


def test_changing_the_encoding_line_is_refused() -> None:
    document = python(b"# coding: latin-1\nx = '\xe9'\n")
    with pytest.raises(EditRefused):
        document.encode(document.text.replace("latin-1", "utf-8"))


def test_a_codec_that_does_not_come_back_is_refused() -> None:
    document = python(b"# coding: utf-7\nx = '+AGE-'\n")  # "a", which would be written as "a"
    with pytest.raises(EditRefused):
        document.encode(document.text + "y = 1\n")


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("x = 1\x00\n", 0),
        ("x = (\n", 1),
        ("a = 1\nprint 'x'\n", 2),
        ("(" * 5000, None),
        ("-" * 100_000 + "1", None),
        ("x = " + "+".join("a" * 20_000), None),
        ("x = a" + ".b" * 50_000, None),
        ("x = " + "\n + ".join(["(a"] + ["b"] * 1000) + ")\n", None),
        ("if a: pass\n" + "elif b: pass\n" * 3000, None),
        ("\n".join(" " * n + "if a:" for n in range(150)), None),
    ],
)
def test_what_cannot_be_parsed_is_unparsable(text: str, row: int | None) -> None:
    document = python(text)
    with pytest.raises(Unparsable) as caught:
        document.tree  # noqa: B018
    if row is not None and b"\0" not in document.data:
        assert caught.value.row == row
    assert caught.value.reason
    with pytest.raises(Unparsable):
        document.tree  # noqa: B018


def test_every_accepted_tree_can_be_visited_recursively() -> None:
    text = "x = (" + "\n + ".join(["a"] * 190) + ")\nif a: pass\n" + "elif b: pass\n" * 190
    ast.NodeVisitor().visit(python(text).tree)


def test_syntax_warnings_are_silent(recwarn: pytest.WarningsRecorder) -> None:
    python("x = '\\d' is 1\n").tree  # noqa: B018
    assert not recwarn.list


def test_other_kinds_have_no_tree() -> None:
    with pytest.raises(Unparsable):
        Document("a.yaml", FileKind.YAML, b"x").tree  # noqa: B018


SPANS = [
    "x = f(1)\n",
    "é = 'ü🙂'; y = f('🙂', b)\n",
    "if a:\n\ty = f('ü',\n\t\tb)\n",
    "a = 1\r\nb = 'é'\rc = f(\n'\u2028 \x0b', d)\n",
    "\x0ca = 1\n\x0cb = f('é')\n",
    "s = '''é\n\u2028ü''' + f(x)\n",
]


@pytest.mark.parametrize("text", SPANS)
def test_spans_are_character_columns(text: str) -> None:
    document = python(text)
    seen = 0
    for node in ast.walk(document.tree):
        if isinstance(node, ast.expr):
            expected = ast.get_source_segment(text, node) if "\x0c" not in text and "\u2028" not in text else None
            source = document.source(document.span(node))
            if expected is not None:
                assert source.replace("\r\n", "\n") == expected.replace("\r\n", "\n")
            assert ast.dump(ast.parse(source, mode="eval").body).replace("Store", "Load") == ast.dump(node).replace(
                "Store", "Load"
            )
            seen += 1
    assert seen


def test_span_of_an_emoji_line() -> None:
    document = python("é = '🙂'; y = f\n")
    statement = document.tree.body[1]
    assert document.span(statement) == Span(1, 10, 1, 15)
    assert document.source(Span(1, 10, 1, 15)) == "y = f"


def test_span_of_the_module_is_empty() -> None:
    document = python("x = 1\n")
    assert document.span(document.tree) == Span(1, 1, 1, 1)


@given(st.text(alphabet="ab\n\r\x0c\u2028é🙂\t", max_size=40))
def test_offset_and_position_are_inverse(text: str) -> None:
    document = Document("a.txt", FileKind.TEXT, text.encode())
    for offset in range(len(text) + 1):
        row, column = document.position(offset)
        at_cut_newline = offset and text[offset - 1 : offset + 1] == "\r\n"
        if not at_cut_newline:
            assert document.offset(row, column) == offset
    assert document.rows == len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"))
    assert [document.line(row + 1) for row in range(document.rows)] == text.replace("\r\n", "\n").replace(
        "\r", "\n"
    ).split("\n")


def test_positions_outside_stay_inside() -> None:
    document = python("ab\ncd")
    assert document.offset(0, 1) == 0
    assert document.offset(1, 99) == 2
    assert document.offset(9, 1) == 5
    assert document.position(99) == (2, 3)
    assert document.position(-1) == (1, 1)
    assert document.line(0) == document.line(3) == ""


@pytest.mark.parametrize(
    ("text", "newline"),
    [("", "\n"), ("a", "\n"), ("a\nb\r\nc\n", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("\r\n", "\r\n")],
)
def test_dominant_newline(text: str, newline: str) -> None:
    assert python(text).newline == newline


def test_newlines_survive_a_change() -> None:
    data = b"a = 1\r\nb = 2\rc = 3\n\x0cd = 4"
    document = python(data)
    assert document.with_text(document.text.replace("2", "22")).data == data.replace(b"2", b"22")


def test_facts_are_computed_once() -> None:
    document = python("x = 1\n")
    calls: list[Document] = []

    def count(of: Document) -> int:
        calls.append(of)
        return len(of.text)

    assert document.fact(count) == document.fact(count) == 6
    assert calls == [document]


def test_a_chain_of_millions_of_operators_is_unparsable() -> None:
    with pytest.raises(Unparsable, match="too deeply"):
        python("x = " + "+".join("a" * 1_000_000)).tree  # noqa: B018
