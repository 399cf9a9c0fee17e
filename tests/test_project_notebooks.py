"""Notebooks: the virtual module, and editing it without touching any other byte of the JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.model import EditRefused
from precfix.codemod.source.documents import Document, FileKind, Unreadable

from .nightly import examples


def cell(source: object, kind: str = "code", **more: object) -> dict[str, object]:
    return {"cell_type": kind, "metadata": {}, "source": source, **more}


def notebook(*cells: dict[str, object], indent: int | None = 1, ascii_only: bool = False, **more: object) -> bytes:
    content = {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}
    return (json.dumps(content, indent=indent, ensure_ascii=ascii_only) + "\n").encode()


def read(data: bytes) -> Document:
    return Document("a.ipynb", FileKind.NOTEBOOK, data)


def sources(data: bytes) -> list[str]:
    found: list[Any] = [entry["source"] for entry in json.loads(data.decode("utf-8-sig"))["cells"]]
    return ["".join(source) if isinstance(source, list) else source for source in found]


def test_code_cells_are_joined_by_sentinels() -> None:
    data = notebook(cell(["import torch\n", "x = 1"]), cell("# text", "markdown"), cell("y = 2\n"), cell(["z = 3"]))
    document = read(data)
    assert document.text == "import torch\nx = 1\n__precfix_cell_3__\ny = 2\n\n__precfix_cell_4__\nz = 3"
    assert document.tree.body
    assert document.encode(document.text) == data
    assert [document.cell_of(row) for row in range(1, 8)] == [(1, 1), (1, 2), None, (3, 1), (3, 2), None, (4, 1)]
    assert read(b'{"cells": [], "nbformat": 4}').cell_of(1) is None


def test_only_the_changed_line_changes() -> None:
    data = (
        b'{"nbformat":4, "cells" : [ {"source" :["caf\\u00e9 = 1\\n" ,\n   "b\\u0020= \\u00e9\\n","c = caf\xc3\xa9"],'
        b'"outputs":[{"text":1E5}], "cell_type":"code"} ], "metadata":{"z":1,"a":2}}'
    )
    document = read(data)
    changed = document.encode(document.text.replace("b = é", "b = 'é\"'"))
    assert changed == data.replace(b'"b\\u0020= \\u00e9\\n"', b'"b = \'\xc3\xa9\\"\'\\n"')


def test_escapes_follow_an_ascii_notebook() -> None:
    data = notebook(cell(["a = 'é'\n", "b = 1\n"]), ascii_only=True)
    changed = read(data).encode(read(data).text.replace("b = 1", "b = 'ü'"))
    assert changed == data.replace(b"b = 1", b"b = '\\u00fc'")


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_layout_of_the_json_is_kept(indent: int | None, newline: bytes, bom: bytes) -> None:
    before = [cell(["a = 1\n", "b = 2\n", "c = 3"]), cell("d = 4\ne = 5"), cell(["f = 6"])]
    after = [cell(["a = 1\n", "b2 = 2\n", "x = 0\n", "c = 3"]), cell("e = 5\ng = 7"), cell(["f = 6\n", "h = 8"])]
    data = bom + notebook(*before, indent=indent).replace(b"\n", newline).rstrip()
    document = read(data)
    text = document.text.replace("b = 2\n", "b2 = 2\nx = 0\n").replace("d = 4\ne = 5", "e = 5\ng = 7")
    changed = document.encode(text.replace("f = 6", "f = 6\nh = 8"))
    assert changed == bom + notebook(*after, indent=indent).replace(b"\n", newline).rstrip()
    assert document.encode(document.text) == data


def test_removing_and_adding_lines_in_a_list() -> None:
    data = notebook(cell(["a = 1\n", "b = 2\n", "c = 3"]))
    assert read(data).encode("b = 2\n") == notebook(cell(["b = 2\n"]))
    assert read(data).encode("") == notebook(cell([]))
    assert read(data).encode("a = 1\nb = 2\nc = 3\n") == notebook(cell(["a = 1\n", "b = 2\n", "c = 3\n"]))


def test_several_lines_in_one_string_and_lines_over_several_strings() -> None:
    data = notebook(cell(["a = 1\nb = 2\n", "", "c = ", "3\n", "d = 4", ""]))
    document = read(data)
    assert document.text == "a = 1\nb = 2\nc = 3\nd = 4"
    changed = document.encode(document.text.replace("b = 2", "b = 22"))
    assert changed == data.replace(b"b = 2", b"b = 22")
    assert sources(document.encode(document.text.replace("c = 3", "c = 33"))) == ["a = 1\nb = 2\nc = 33\nd = 4"]
    assert sources(document.encode(document.text.replace("d = 4", "d = 44\n"))) == ["a = 1\nb = 2\nc = 3\nd = 44\n"]


MAGICS = """\
%matplotlib inline
import os
!pip install \\
    torch \\
  accelerate
files = !ls -l
if os.name:
    !nvidia-smi
    %time run(1)
    x = %timeit -o f()
else:
\t!echo
y = '''
!not a command
%nor magic
'''
z = (1
% 2)
torch.nn?
??y
%env A=1
a = b = 1 \\
% 3
"""


def test_magics_are_masked_and_come_back() -> None:
    data = notebook(cell(MAGICS.splitlines(keepends=True)), cell("%%time\nq = 1\n"))
    document = read(data)
    assert not document.unparsed_cells
    assert document.tree
    assert "y = '''\n!not a command\n%nor magic\n'''\nz = (1\n% 2)\n" in document.text
    changed = document.encode(document.text.replace("import os", "import os, sys").replace("q = 1", "q = 2"))
    assert sources(changed) == [MAGICS.replace("import os", "import os, sys"), "%%time\nq = 2\n"]
    assert document.with_text(document.text.replace("q = 1", "q = 2")).text == document.text.replace("q = 1", "q = 2")


def test_shell_lines_and_their_places() -> None:
    document = read(notebook(cell(MAGICS)))
    lines = document.shell_lines
    assert [(line.row, line.text) for line in lines] == [
        (3, "!pip install \\"),
        (4, "    torch \\"),
        (5, "  accelerate"),
        (6, "!ls -l"),
        (8, "!nvidia-smi"),
        (12, "!echo"),
        (21, "%env A=1"),
    ]
    for line in lines:
        assert document.line(line.row)[line.column - 1 :] == line.text
    shown = [document.shown_column(line.row, line.column) for line in lines]
    assert shown == [1, 1, 1, 9, 5, 2, 1]
    assert document.shown_column(2, 3) == 3


def test_the_text_of_a_shell_line_can_be_edited() -> None:
    data = notebook(cell(["!accelerate launch \\\n", "  --mixed_precision fp16 train.py\n", "x = 1"]))
    document = read(data)
    assert document.encode(document.text.replace("fp16", "bf16")) == data.replace(b"fp16", b"bf16")


def test_a_dedented_magic_keeps_its_text() -> None:
    document = read(notebook(cell("if a:\n    !ls \\\n      -l\n    b = 1\n")))
    masked = document.text.split("\n")
    dedented = "\n".join(line.removeprefix("    ") for line in masked[1:])
    assert sources(document.encode(dedented)) == ["!ls \\\n      -l\nb = 1\n"]


@pytest.mark.parametrize("source", ["%%bashful\nls $x\n", "%%writefile a.py\nx = 1\n", "\n%%html\n<b>\n", "", "\n \n"])
def test_cells_of_another_language_are_left_out(source: str) -> None:
    document = read(notebook(cell(source), cell("x = 1")))
    assert document.text == "x = 1"
    assert not document.unparsed_cells
    assert document.cell_of(1) == (2, 1)


@pytest.mark.parametrize("magic", ["%%bash", "%%sh", "%%script bash", "%%script /bin/sh", "%%!", "\n%%bash -e"])
def test_a_cell_of_shell_is_one_magic_and_comes_back(magic: str) -> None:
    source = f"{magic}\n\n  ls \\\n -l\npython a.py --p x # why\n"
    document = read(notebook(cell(source), cell("x = 1")))
    assert [line.text for line in document.shell_lines][1:] == ["", "  ls \\", " -l", "python a.py --p x # why"]
    changed = document.encode(document.text.replace("--p x", "--p y"))
    assert sources(changed) == [source.replace("--p x", "--p y"), "x = 1"]
    assert document.text.endswith("\nx = 1")


def test_broken_cells_are_left_out_and_listed() -> None:
    document = read(notebook(cell("x = 1"), cell("a = 1\nprint 'x'\n"), cell("y = (\n"), cell("z = 1")))
    assert document.text == "x = 1\n__precfix_cell_4__\nz = 1"
    assert [(entry.cell, entry.row) for entry in document.unparsed_cells] == [(2, 2), (3, 1)]
    changed = document.encode(document.text.replace("z", "zz"))
    assert sources(changed) == ["x = 1", "a = 1\nprint 'x'\n", "y = (\n", "zz = 1"]


@pytest.mark.parametrize("word", ["__precfix_cell_3__", "x = '#precfix-magic'"])
def test_reserved_words_leave_the_cell_out(word: str) -> None:
    document = read(notebook(cell(word), cell("x = 1")))
    assert document.text == "x = 1"
    assert document.unparsed_cells[0].cell == 1


def test_lone_surrogates_leave_the_cell_out() -> None:
    document = read(rb'{"cells":[{"cell_type":"code","source":"x = \"\ud800\""},{"cell_type":"code","source":"y"}]}')
    assert document.text == "y"
    assert document.unparsed_cells


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: text.replace("__precfix_cell_2__\n", ""),
        lambda text: text.replace("__precfix_cell_2__", "__precfix_cell_3__"),
        lambda text: text.replace("__precfix_cell_2__", "if x:\n    __precfix_cell_2__"),
        lambda text: text.replace("__precfix_cell_2__", "__precfix_cell_2__ + 1"),
        lambda text: text + "\n__precfix_cell_3__\n",
        lambda text: text.replace("pass  #precfix-magic:%ls", "pass"),
        lambda text: text.replace("pass  #precfix-magic:%ls", "x = 1"),
        lambda text: text.replace("pass  #precfix-magic:", "pass #precfix-magic:"),
        lambda text: text.replace("a = 1", "a = ("),
        lambda text: text.replace("a = 1", "%%bash"),
        lambda text: "".join(reversed(text.splitlines(keepends=True))),
    ],
)
def test_lost_borders_and_magics_are_refused(broken: Any) -> None:
    document = read(notebook(cell("%ls\na = 1"), cell("b = 1"), cell("c = 1")))
    changed = broken(document.text)
    if changed == document.text:
        pytest.skip("nothing to break")
    with pytest.raises(EditRefused):
        document.encode(changed)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "format 3"),
        (b"", "empty"),
        (b"[1]", "not a notebook"),
        (b"{", "JSON"),
        (b'{"a": 1}', "no cells"),
        (b'{"cells": [}', "JSON"),
        (b'{"cells": []} x', "JSON"),
        (b'{"cells": [{"source": ["x"', "JSON"),
        (b'{"cells": [{1: 2}]}', "JSON"),
        (b'{"cells": "\xff"}', "utf-8"),
        (b'{"a": ' + b"[" * 100_000, "JSON"),
        (b'{"a": ' + b"1" * 10_000 + b"}", "digits"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not a notebook"),
    ],
)
def test_what_is_no_notebook_is_unreadable(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(data)


@pytest.mark.parametrize(
    "cells",
    [
        b"[1, null, []]",
        b'[{"cell_type": "code"}, {"cell_type": "code", "source": null}, {"source": "x"}]',
        b'[{"cell_type": "code", "source": ["a", 1]}]',
        b'[{"cell_type": "code", "source": []}]',
        b"{}",
    ],
)
def test_odd_cells_are_no_code(cells: bytes) -> None:
    document = read(b'{"nbformat": 4, "cells": ' + cells + b"}")
    assert document.text == ""
    assert document.encode("") == document.data
    with pytest.raises(EditRefused):
        document.encode("x = 1\n")


@pytest.mark.parametrize(
    ("metadata", "is_python"),
    [
        ({}, True),
        ({"kernelspec": {"language": "python", "name": "conda-env"}}, True),
        ({"kernelspec": {"name": "python3"}}, True),
        ({"language_info": {"name": "julia"}}, False),
        ({"kernelspec": {"language": "R", "name": "ir"}}, False),
    ],
)
def test_language_of_a_notebook(metadata: dict[str, object], is_python: bool) -> None:
    document = read(notebook(cell("x = 1"), metadata=metadata))
    assert document.text == ("x = 1" if is_python else "")


def test_crlf_inside_a_source() -> None:
    data = notebook(cell(["a = 1\r\n", "b = 2\r\n"]), cell("c = 3\r\n!ls\r\nd = 4"))
    document = read(data)
    changed = document.encode(document.text.replace("b = 2", "b = 22").replace("d = 4", "d = 44"))
    assert changed == data.replace(b"b = 2", b"b = 22").replace(b"d = 4", b"d = 44")


LINES = st.lists(
    st.sampled_from(
        ["a = 1\n", "b = 'é🙂'\n", "!ls\n", "\n", "# c\\\\u00e9\n", "if a:\n    %time b\n", "c = '\\t\"'\n"]
    ),
    max_size=5,
).map("".join)


@settings(max_examples=examples(150))
@given(
    st.lists(st.tuples(LINES, LINES, st.sampled_from(["lines", "string", "characters"])), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([None, 1]),
)
def test_any_edit_gives_exactly_the_new_sources(
    cells: list[tuple[str, str, str]], ascii_only: bool, indent: int | None
) -> None:
    spell = {"lines": lambda text: text.splitlines(keepends=True), "string": str, "characters": list}
    old = [cell(spell[shape](f"k{n} = 0\n{before}")) for n, (before, _, shape) in enumerate(cells)]
    wanted = [f"{after}k{n} = 0" for n, (_, after, _) in enumerate(cells)]
    document = read(notebook(*old, indent=indent, ascii_only=ascii_only))
    target = read(notebook(*(cell(source) for source in wanted)))
    try:
        changed = document.encode(target.text)
    except EditRefused:
        assert document.text.count("#precfix-magic") != target.text.count("#precfix-magic") or any(
            before.count("!") + before.count("%") != after.count("!") + after.count("%") for before, after, _ in cells
        )
        return
    assert sources(changed) == wanted
    assert read(changed).text == target.text
