"""Which comments are suppressions, and which rows they cover, in every format."""

from __future__ import annotations

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.screening.suppressions import MAX_CODES, MAX_PER_FILE, Suppression, suppressions_of
from precfix.codemod.source.documents import Document, kind_of

from .byte_variants import ROWS_ADDED, changed_files
from .nightly import examples


def document(path: str, text: str | bytes) -> Document:
    kind = kind_of(path)
    assert kind is not None
    return Document(path, kind, text if isinstance(text, bytes) else text.encode())


def read(path: str, text: str | bytes) -> tuple[Suppression, ...]:
    return suppressions_of(document(path, text))


def rows(path: str, text: str) -> list[tuple[tuple[str, ...], tuple[int, int] | None]]:
    return [(each.codes, each.rows) for each in read(path, text)]


# --- what counts as one -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comment", "codes", "reason"),
    [
        ("# precfix: ignore[PF101]", ("PF101",), ""),
        ("#precfix:ignore[PF101]", ("PF101",), ""),
        ("##  PRECFIX :  Ignore [ pf101 ,PF2 , ]  why", ("pf101", "PF2"), "why"),
        ("# precfix: ignore[grad-scaler-under-bf16] - see #12", ("grad-scaler-under-bf16",), "see #12"),
        ("# noqa: E501  # precfix: ignore[PF101] why", ("PF101",), "why"),
        ("# type: ignore # precfix: ignore[PF101] why # nosec", ("PF101",), "why"),
        ("# precfix: ignore[PF101] why  # precfix: ignore[PF101]", ("PF101",), "why"),
    ],
)
def test_spellings(comment: str, codes: tuple[str, ...], reason: str) -> None:
    found = read("a.py", f"x = 1  {comment}\n")
    assert (found[0].codes, found[0].reason, found[0].malformed) == (codes, reason, "")


@pytest.mark.parametrize(
    ("comment", "instead"),
    [
        ("# precfix: ignore", "ignore[PF101]"),
        ("# precfix: ignore PF103 here", "ignore[PF103]"),
        ("# precfix: ignore[]", "ignore[PF101]"),
        ("# precfix: ignore[PF103", "ignore[PF103]"),
        ("# precfix: noqa", "ignore[PF101]"),
        ("# precfix: noqa: PF103, pf104", "ignore[PF103, PF104]"),
        ("# precfix: disable=PF103", "ignore[PF103]"),
        ("# precfix: ignored[PF103]", "ignore[PF103]"),
        ("# precfix: igonre[PF103]", "ignore[PF103]"),
        ("# precfix ignore[PF103]", "ignore[PF103]"),
        ("# precfix: ignore-line[PF103]", "ignore[PF103]"),
        ("# precfix: ignore_file[PF103]", "ignore-file[PF103]"),
        ("# precfix: ignore-file", "ignore-file[PF101]"),
        (f"# precfix: ignore[{'A1,' * (MAX_CODES + 1)}]", "ignore["),
    ],
)
def test_what_was_meant_but_silences_nothing_is_malformed(comment: str, instead: str) -> None:
    (found,) = read("a.py", f"x = 1  {comment}\n")
    assert instead in found.malformed.rpartition("write ")[2]
    assert not found.covers(1)
    assert not found.protects


@pytest.mark.parametrize(
    "comment",
    [
        "# precfix: the scaler is needed",
        "# see precfix: ignore[PF101]",
        "# precfix",
        "# precfix finds PF101 here",
        "# `# precfix: ignore[PF101]` hides it",
        "# xprecfix: ignore[PF101]",
        "# precfixed: ignore[PF101]",
    ],
)
def test_prose_about_precfix_is_no_suppression(comment: str) -> None:
    assert read("a.py", f"x = 1  {comment}\n") == ()


def test_a_whole_file() -> None:
    bare, coded = read("a.py", "x = 1\n# precfix: ignore-file generated\n  # precfix: ignore-file[PF1] why\n")
    assert (bare.protects, bare.whole_file, bare.reason) == (True, True, "generated")
    assert (coded.protects, coded.whole_file, coded.codes, coded.reason) == (False, True, ("PF1",), "why")
    assert bare.covers(1)
    assert coded.covers(99)


# --- where: Python ----------------------------------------------------------------------------------------------------


PYTHON = '''\
import torch  # precfix: ignore[A1]
s = """
# precfix: ignore[A2]
"""  # precfix: ignore[A3]
# precfix: ignore[A4]
# between

# precfix: ignore[A5]
@first
@second(  # precfix: ignore[A6]
    1)
def f(a,
      b):  # precfix: ignore[A7]
    # precfix: ignore[A8]
    return a + \\
        b  # precfix: ignore[A9]
class C:  # precfix: ignore[B1]
    x = f(
        # precfix: ignore[B2]
        "# precfix: ignore[B3]", f"# precfix: ignore[B4]", r"\\",  # precfix: ignore[B5]
    )
if x: y = 1; z = 2  # precfix: ignore[B6]
# precfix: ignore[B7]
'''
PYTHON_ROWS = [
    (("A1",), (1, 1)),
    (("A3",), (2, 4)),
    (("A4",), (5, 13)),
    (("A5",), (8, 13)),
    (("A6",), (10, 11)),
    (("A7",), (12, 13)),
    (("A8",), (14, 16)),
    (("A9",), (15, 16)),
    (("B1",), (17, 17)),
    (("B2",), (18, 21)),
    (("B5",), (18, 21)),
    (("B6",), (22, 22)),
    (("B7",), None),
]


def test_python() -> None:
    assert rows("a.py", PYTHON) == PYTHON_ROWS


@pytest.mark.parametrize("variant", ["crlf", "cr", "tabs", "no-final-newline", "latin-1"])
def test_python_in_other_bytes(variant: str) -> None:
    changed = changed_files(variant, {"a.py": PYTHON.encode()})
    if changed is None:
        pytest.skip(f"{variant} does not change this text")
    moved = ROWS_ADDED.get(variant, 0)
    found = [(each.codes, each.rows) for each in read("a.py", changed["a.py"])]
    assert found == [(codes, at and (at[0] + moved, at[1] + moved)) for codes, at in PYTHON_ROWS]


@pytest.mark.parametrize(
    "broken", ["x = (\n", 's = """\n', "  x\n y\n", "x = $\n", "x = 0777\n", "\0", "def f(:\n", "é = “\n", "\\ \n"]
)
def test_python_that_cannot_be_read_is_survived(broken: str) -> None:
    found = read("a.py", f"x = 1  # precfix: ignore[PF101]\n{broken}")
    assert {each.codes for each in found} <= {("PF101",)}


def test_a_notebook() -> None:
    source = (
        '"!torchrun a.py  # precfix: ignore[A1]\\n", "!echo \\"# precfix: ignore[A2]\\" \\\\\\n", '
        '"  --x # precfix: ignore[A3]\\n", "x = 1  # precfix: ignore[A4]\\n", "%time x # precfix: ignore[A5]"'
    )
    text = (
        '{"cells": [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, "source": ['
        + source
        + ']}, {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": null, "source": ["y = 2"]}],'
        ' "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    assert rows("a.ipynb", text) == [(("A1",), (1, 1)), (("A3",), (2, 3)), (("A4",), (4, 4))]


def test_a_shell_cell_of_a_notebook() -> None:
    source = "%%bash\nset -e # precfix: ignore[A1]\n\npython a.py \\\n  --x # precfix: ignore[A2]\necho\n"
    text = json.dumps({"cells": [{"cell_type": "code", "source": source}], "metadata": {}, "nbformat": 4})
    assert rows("a.ipynb", text) == [(("A1",), (2, 2)), (("A2",), (4, 5))]


# --- where: other formats ---------------------------------------------------------------------------------------------

OTHERS: dict[str, tuple[str, list[tuple[str, tuple[int, int] | None]]]] = {
    "a.yaml": (
        '# precfix: ignore[A1]\na: "# precfix: ignore[A2]"  # precfix: ignore[A3]\nb: |  # precfix: ignore[A4]\n'
        "  # precfix: ignore[A5]\n\n  x\nc: x # precfix: ignore[A6]\nd: x#precfix:ignore[A7]\n"
        "# precfix: ignore[A8]\ne: 'x\n  # precfix: ignore[A9]\n  y'\nf: [1, # precfix: ignore[B1]\n  2]\n"
        "---\ng: >-\n  # precfix: ignore[B2]\n# precfix: ignore[B3]\nh: plain\n  text # precfix: ignore[B4]\n",
        [
            ("A1", (1, 2)),
            ("A3", (2, 2)),
            ("A4", (3, 6)),
            ("A6", (7, 7)),
            ("A8", (9, 12)),
            ("B1", (13, 13)),
            ("B3", (18, 20)),
            ("B4", (19, 20)),
        ],
    ),
    "a.toml": (
        'a = "# precfix: ignore[A1]"  # precfix: ignore[A2]\nb = """\n# precfix: ignore[A3]\n"""\n'
        "c = '''\n# precfix: ignore[A4]'''  # precfix: ignore[A5]\nd = [\n  1,  # precfix: ignore[A6]\n"
        "  # precfix: ignore[A7]\n  2,\n]\n# precfix: ignore[A8]\n[t]\ne = 'it''s # x'\n",
        [("A2", (1, 1)), ("A5", (5, 6)), ("A6", (8, 8)), ("A7", (9, 10)), ("A8", (12, 13))],
    ),
    "a.json": (
        '{\n  // precfix: ignore[A1] why\n  "a": "// precfix: ignore[A2]", /* precfix: ignore[A3] */\n'
        '  /* precfix: ignore[A4]\n     more */\n  "b\\"": "\\\\"  // precfix: ignore[A5]\n}\n',
        [("A1", (2, 3)), ("A3", (3, 3)), ("A4", (4, 6)), ("A5", (6, 6))],
    ),
    "a.sh": (
        "#!/bin/bash\n# precfix: ignore[A1]\n\ntorchrun \\\n  --a '# precfix: ignore[A2]' \\\n"
        "  --b # precfix: ignore[A3]\ncat <<EOF <<E2 > x  # precfix: ignore[A4]\n# precfix: ignore[A5]\nEOF\n"
        "# precfix: ignore[A6]\nE2\nx=(\n  a#b # precfix: ignore[A7]\n  # precfix: ignore[A8]\n  c\n)\n"
        'echo "\n# precfix: ignore[A9]\n" # precfix: ignore[B1]\necho $# ${x#y} # precfix: ignore[B2]\n',
        [
            ("A1", (2, 6)),
            ("A3", (4, 6)),
            ("A4", (7, 11)),
            ("A7", (12, 16)),
            ("A8", (12, 16)),
            ("B1", (17, 19)),
            ("B2", (20, 20)),
        ],
    ),
    ".env": (
        'A=b # precfix: ignore[A1]\nB="# precfix: ignore[A2]" # precfix: ignore[A3]\nC=it\'s # precfix: ignore[A4]\n'
        "D=x#precfix: ignore[A5]\n# precfix: ignore[A6]\nE='\n# precfix: ignore[A7]\n'\n",
        [("A1", (1, 1)), ("A3", (2, 2)), ("A4", (3, 3)), ("A6", (5, 8))],
    ),
    "Makefile": (
        "X = a  # precfix: ignore[A1]\nY = \\# precfix: ignore[A2]\nall:\n\techo '# precfix: ignore[A3]' # precfix: "
        "ignore[A4]\n# precfix: ignore[A5]\n\ttorchrun \\\n\t  --x\n",
        [("A1", (1, 1)), ("A4", (4, 4)), ("A5", (5, 7))],
    ),
    "Dockerfile": (
        "# precfix: ignore[A1]\nFROM x # precfix: ignore[A2]\nRUN a \\\n  # precfix: ignore[A3]\n\n  b\n"
        "RUN <<EOF\n# precfix: ignore[A4]\nEOF\n# precfix: ignore[A5]\nENV A=b\n",
        [("A1", (1, 2)), ("A3", (3, 6)), ("A5", (10, 11))],
    ),
    "requirements.txt": (
        "torch==2.0 # precfix: ignore[A1]\na@https://x/#precfix: ignore[A2]\n"
        "# precfix: ignore[A3]\nx==1 \\\n  --hash=a\n",
        [("A1", (1, 1)), ("A3", (3, 5))],
    ),
    "setup.cfg": ("[a]\nx = 1 # precfix: ignore[A1]\n# precfix: ignore[A2]\ny = 2\n", [("A2", (3, 4))]),
    "README.md": ("# precfix: ignore[A1]\n", []),
}


@pytest.mark.parametrize("path", OTHERS)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_other_formats(path: str, newline: str) -> None:
    text, expected = OTHERS[path]
    found = [(each.codes[0], each.rows) for each in read(path, text.replace("\n", newline))]
    assert found == expected


@pytest.mark.parametrize("path", OTHERS)
def test_spans_and_removals_are_those_of_the_comment(path: str) -> None:
    text, _ = OTHERS[path]
    opened = document(path, text)
    for each in suppressions_of(opened):
        assert re.match(r"(#|//|/\*) precfix: ignore\[", opened.source(each.span))
        assert opened.text[each.listed[0] : each.listed[1]] == each.codes[0]
        if each.removal is not None:
            rest = opened.text[: each.removal[0]] + opened.text[each.removal[1] :]
            left = [one.codes for one in suppressions_of(document(path, rest))]
            assert left == [one.codes for one in suppressions_of(opened) if one != each]


# --- anything ---------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("# precfix: ignore[PF101]", "// precfix: ignore[PF1] a", "/* precfix: ignore-file */", "# precfix: ignore"),
        *("\n", "\r\n", "\r", "\\\n", " ", "\t", "x: y", "x = 1", "'", '"', '"""', "'''", "(", ")", "[", "]", "{", "}"),
        *("|", ">", "<<EOF", "EOF", "$(", "#", "é", "\x0c", "\u2028", "@d", "def f():", "- ", "---", "%", "!x", "`"),
    ]
)
NAMES = st.sampled_from([*OTHERS, "a.py", "b.jsonc", "c.ini", "d.bash", "e.mk"])


@settings(max_examples=examples(300))
@given(NAMES, st.lists(PIECES, max_size=40).map("".join))
def test_any_text_is_read_and_spans_are_inside(path: str, text: str) -> None:
    opened = document(path, text)
    for each in suppressions_of(opened):
        assert "precfix" in opened.source(each.span).lower()
        assert each.rows is None or 1 <= each.rows[0] <= each.rows[1] <= opened.rows
        assert each.rows is None or each.rows[0] <= each.span.row <= each.rows[1] or each.malformed or "*" in text
        if each.removal is not None:
            start, end = each.removal
            assert 0 <= start < end <= len(opened.text)
            assert opened.source(each.span) in opened.text[start:end] + "\n"


@settings(max_examples=examples(100))
@given(NAMES, st.lists(PIECES.filter(lambda piece: "precfix" not in piece), max_size=40).map("".join))
def test_no_comment_no_suppression(path: str, text: str) -> None:
    assert read(path, f"{text}\nprecfix: ignore[PF101]") == ()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("a.py", "# precfix: ignore[PF101]\n"),
        ("a.yaml", "# precfix: ignore[PF101]\n"),
        ("a.sh", "cat <<E  # precfix: ignore[PF101]\nE\n"),
        ("a.json", "/* precfix: ignore[PF101] */ "),
        ("a.py", "# precfix: ignore[" + "PF1 " * 50 + "\n"),
        ("a.toml", '# precfix: ignore[PF101]\n"'),
        ("a.env", 'A="\n# precfix: ignore[PF1]\n'),
        ("a.py", "x = 1  " + "# precfix: ignore[PF101] " * 3 + "\n"),
    ],
)
def test_many_comments_take_linear_time_and_are_bounded(path: str, line: str) -> None:
    begun = time.process_time()
    found = read(path, line * 20_000)
    assert len(found) <= MAX_PER_FILE
    assert time.process_time() - begun < 10
