"""Where findings stand in the file itself: rows of a notebook's JSON text, paths and their URIs."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.model import Span
from precfix.codemod.source.documents import Document, FileKind

from .nightly import examples
from .report_samples import PLACES, in_cell


def notebook(sources: list[Any], *, indent: int | None = 1, newline: str = "\n") -> Document:
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in sources
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=indent)
    return Document("x.ipynb", FileKind.NOTEBOOK, text.replace("\n", newline).encode())


def raw(document: Document, row: int) -> str:
    """The row of the file that holds a row of the document, without quotes and commas."""
    at = document.file_row(row)
    assert at is not None
    return document.data.decode().splitlines()[at - 1].strip().strip('",')


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_each_line_of_a_list_has_its_row(newline: str) -> None:
    document = notebook([["a = 1\n", "b = 'é'\n", "!ls\n", "c = 3"], ["d = 4\n", "\n", "e = 5"]], newline=newline)
    rows = [raw(document, row) for row in range(1, document.rows + 1) if document.cell_of(row)]
    assert rows == ["a = 1\\n", "b = '\\u00e9'\\n", "!ls\\n", "c = 3", "d = 4\\n", "\\n", "e = 5"]
    assert [row for row in range(document.rows + 3) if document.file_row(row) is None] == [0, 5, 9, 10]


def test_spellings_without_a_row_per_line() -> None:
    whole = notebook(["a = 1\nb = 2\n"])
    assert raw(whole, 1) == raw(whole, 2) == 'source": "a = 1\\nb = 2\\n'
    mixed = notebook([["a = 1\r", "b = 2\n", "c = 3"]])
    assert {raw(mixed, row) for row in (1, 2, 3)} == {'source": ['}
    one_row = notebook([["a = 1\n", "b = 2"]], indent=None)
    assert [one_row.file_row(row) for row in (1, 2)] == [1, 1]


def test_other_files_have_their_own_rows() -> None:
    assert Document("x.py", FileKind.PYTHON, b"a\nb\n").file_row(2) == 2


LINES = st.lists(
    st.sampled_from(["a = 1\n", "b = '''x\n", "'''\n", "# é\n", "\n", "!ls\n", "%time x\n", "c\\\n", ";\n"])
)


@settings(max_examples=examples(80))
@given(st.lists(LINES, max_size=3))
def test_rows_hold_their_lines(cells: list[list[str]]) -> None:
    document = notebook([cell for cell in cells if cell])
    for row in range(1, document.rows + 1):
        cell = document.cell_of(row)
        if cell is None:
            continue
        line = [each for each in cells if each][cell[0] - 1]
        if cell[1] <= len(line):
            assert raw(document, row) == json.dumps(line[cell[1] - 1]).strip('"')


@given(st.text(st.characters(exclude_characters="\0"), min_size=1, max_size=8))
@settings(max_examples=examples(100))
def test_a_uri_gives_the_path_back(path: str) -> None:
    uri = PLACES.uri(path)
    assert uri.isascii()
    assert not set(uri) & set(' :?#[]@"<>\\^`{|}%') - {"%"}
    assert unquote_to_bytes(uri) == path.encode("utf-8", "surrogatepass")


def test_paths_that_are_no_utf_8() -> None:
    assert PLACES.path("a\udcff/é.py") == "a\\xff/é.py"
    assert PLACES.uri("a\udcff/é.py") == "a%FF/%C3%A9.py"


def test_rows_of_a_span() -> None:
    assert PLACES.rows("a.py", Span(2, 5, 4, 1)) == (2, 3)
    assert PLACES.rows("a.py", Span(2, 1, 2, 1)) == (2, 2)
    assert PLACES.rows("a.py", Span(0, 0, 0, 0)) == (1, 1)
    assert in_cell(lambda row: None).rows("a.py", Span(2, 1, 3, 1)) is None
    assert in_cell({2: 9}.get).rows("a.py", Span(2, 1, 5, 3)) == (9, 9)
