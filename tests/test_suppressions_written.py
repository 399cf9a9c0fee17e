"""Comments that ``check --add-ignore`` writes: they cover their findings, and nothing else changes."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from pathlib import Path

import pytest
import tomlkit
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.model import Finding, Rule, Span
from precfix.codemod.screening.ignore_writing import IgnoresWritten, clean_reason, with_ignores
from precfix.codemod.screening.suppressing import silence
from precfix.codemod.source.documents import Document
from precfix.codemod.source.project import Project

from .nightly import examples
from .test_suppressions import document


def finding(path: str, row: int, code: str = "PF101") -> Finding:
    return Finding(code, f"rule-{code.lower()}", "x", path, Span(row, 1, row, 2))


def write(root: Path, path: str, data: str | bytes, findings: Iterable[Finding], reason: str = "") -> IgnoresWritten:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return with_ignores(Project.open([root]), findings, reason)


def written(root: Path, path: str, text: str, *rows: int, reason: str = "") -> str:
    """The new text; every finding must have got its comment, and be silenced by it."""
    findings = [finding(path, row) for row in rows]
    done = write(root, path, text, findings, reason)
    assert (done.written, done.skipped) == (findings, ())
    return done.texts[path]


IGNORE = "# precfix: ignore[PF101]"

CASES = [
    ("a.py", "x = 1\n", (1,), f"x = 1  {IGNORE}\n"),
    ("a.py", "x = 1  # noqa: E501\n", (1,), f"x = 1  # noqa: E501  {IGNORE}\n"),
    ("a.py", "x = 1\t \r\ny\r\n", (1,), f"x = 1  {IGNORE}\t \r\ny\r\n"),
    ("a.py", "x = 1", (1,), f"x = 1  {IGNORE}"),
    ("a.py", "f(\n    1,\n)\n", (1,), f"f(  {IGNORE}\n    1,\n)\n"),
    ("a.py", "f(\n    1,\n)\n", (2,), f"f(  {IGNORE}\n    1,\n)\n"),
    ("a.py", "x = '''\na\n'''\n", (1,), f"x = '''\na\n'''  {IGNORE}\n"),
    ("a.py", "if x:\n\ty = 1 + \\\n\t\t2\n", (2,), f"if x:\n\ty = 1 + \\\n\t\t2  {IGNORE}\n"),
    ("a.py", "y = '''\n''' + \\\n'''\n'''.x(\\\n)\n", (1,), f"y = '''\n''' + \\\n'''\n'''.x(\\\n)  {IGNORE}\n"),
    ("a.py", "@d\n@e(\n 1)\ndef f():\n    pass\n", (2,), f"@d\n@e(  {IGNORE}\n 1)\ndef f():\n    pass\n"),
    ("a.py", "@d\ndef f():\n    pass\n", (2,), f"@d\ndef f():  {IGNORE}\n    pass\n"),
    ("a.py", "if a: pass\nelse: b\n", (2,), f"if a: pass\nelse: b  {IGNORE}\n"),
    ("a.py", "x = 1  # precfix: ignore[PF2] why\n", (1,), "x = 1  # precfix: ignore[PF101, PF2] why\n"),
    ("a.py", "# precfix: ignore[PF2] why\n\nx = 1\n", (3,), "# precfix: ignore[PF101, PF2] why\n\nx = 1\n"),
    (
        "a.py",
        "# precfix: ignore[PF2]\n@d\ndef f(): pass\n",
        (3,),
        f"# precfix: ignore[PF2]\n@d\ndef f(): pass  {IGNORE}\n",
    ),
    ("a.py", "x = 1  # precfix: noqa\n", (1,), f"x = 1  # precfix: noqa  {IGNORE}\n"),
    ("a.yaml", "a: 1\nb: 2 # c\n", (1, 2), f"a: 1  {IGNORE}\nb: 2 # c  {IGNORE}\n"),
    ("a.yaml", "a:\n  b: |\n    x\n\n    y\nc: 1\n", (5,), f"a:\n  {IGNORE}\n  b: |\n    x\n\n    y\nc: 1\n"),
    ("a.yaml", "a: 'x\n  y'\n", (1,), f"{IGNORE}\na: 'x\n  y'\n"),
    ("a.yaml", "- a: b\n  c: plain\n    text\n", (3,), f"- a: b\n  {IGNORE}\n  c: plain\n    text\n"),
    ("a.yaml", "a: [1,\n  2]\n", (2,), f"a: [1,\n  2]  {IGNORE}\n"),
    ("a.toml", "a = 1\n[t]\nb = '''\nx'''\n", (1, 3), f"a = 1  {IGNORE}\n[t]\n{IGNORE}\nb = '''\nx'''\n"),
    ("a.jsonc", '{\n  "a": 1\n}\n', (2,), '{\n  "a": 1  // precfix: ignore[PF101]\n}\n'),
    ("a.json", '{ // c\n  "a": 1\n}\n', (2,), '{ // c\n  "a": 1  // precfix: ignore[PF101]\n}\n'),
    ("a.sh", "run --x\n", (1,), f"run --x  {IGNORE}\n"),
    ("a.sh", "if a; then\n  run \\\n    --x\nfi\n", (3,), f"if a; then\n  {IGNORE}\n  run \\\n    --x\nfi\n"),
    ("a.sh", "cat <<E > x\na: 1\nE\n", (2,), f"{IGNORE}\ncat <<E > x\na: 1\nE\n"),
    ("a.sh", 'X="a\nb"\n', (2,), f'{IGNORE}\nX="a\nb"\n'),
    (".env", "A=1\nB=2\n", (2,), f"A=1\n{IGNORE}\nB=2\n"),
    ("Makefile", "all:\n\trun \\\n\t  --x\n", (3,), f"all:\n{IGNORE}\n\trun \\\n\t  --x\n"),
    ("Dockerfile", "FROM x\nRUN a \\\n  b\n", (3,), f"FROM x\n{IGNORE}\nRUN a \\\n  b\n"),
    ("requirements.txt", "torch==2.0\n", (1,), f"torch==2.0  {IGNORE}\n"),
    ("setup.cfg", "[a]\nx = 1\n", (2,), f"[a]\n{IGNORE}\nx = 1\n"),
]


@pytest.mark.parametrize(("path", "before", "rows", "after"), CASES)
def test_where_the_comment_goes(path: str, before: str, rows: tuple[int, ...], after: str, tmp_path: Path) -> None:
    assert written(tmp_path, path, before, *rows) == after


@pytest.mark.parametrize(("path", "before", "rows", "after"), CASES)
def test_what_was_written_silences_the_findings_and_is_used(
    path: str, before: str, rows: tuple[int, ...], after: str, tmp_path: Path
) -> None:
    findings = [finding(path, row) for row in rows]
    done = write(tmp_path, path, before, findings)
    (tmp_path / path).write_text(after, newline="")
    project = Project.open([tmp_path])
    moved = [finding(path, found(document(path, before), document(path, after), row)) for row in rows]
    rule = Rule("PF002", "unused-suppression", "", lambda project: ())
    known = [rule, *(Rule(code, f"rule-{code.lower()}", "", lambda project: ()) for code in ("PF101", "PF2"))]
    screened = silence(project, moved, known[:2], known)
    assert done.texts[path] == after
    assert [each for each in screened.findings if not each.message.startswith("this comment")] == []
    assert len(screened.silenced) == len(rows)


def found(before: Document, after: Document, row: int) -> int:
    """The row at which a row's text stands after the change."""
    line = before.line(row).split("#")[0].rstrip()
    rows = [number for number in range(row, after.rows + 1) if after.line(number).startswith(line)]
    return rows[0]


def test_findings_of_one_line_share_a_comment(tmp_path: Path) -> None:
    findings = [finding("a.py", 1, "PF209"), finding("a.py", 2, "PF101"), finding("a.py", 2, "PF101")]
    done = write(tmp_path, "a.py", "f(\n    x)\n", findings, "known\nsince [#12] ")
    assert done.texts == {"a.py": "f(  # precfix: ignore[PF101, PF209] known since (12)\n    x)\n"}
    assert sorted(each.code for each in done.written) == ["PF101", "PF101", "PF209"]


@pytest.mark.parametrize(
    ("data", "row"),
    [
        (b"\xef\xbb\xbfx = '\xc3\xa9'\r\n", 1),
        (b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", 2),
        (b"x = 1\ry = 2\r", 2),
        (b"\tx\x0c\n if", 1),
        (b"if 1:\n\tx = 1 # \xc3\xa9\n", 2),
    ],
)
def test_bytes_are_kept(data: bytes, row: int, tmp_path: Path) -> None:
    done = write(tmp_path, "a.py", data, [finding("a.py", row)])
    opened = document("a.py", data)
    if not done.written:
        assert done.skipped
        assert done.texts == {}
        return
    new = opened.encode(done.texts["a.py"])
    assert new.replace(b"  # precfix: ignore[PF101]", b"") == data


def test_a_notebook(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": source}
        for source in (["!torchrun \\\n", "  --x\n", "x = 1"], ["%%time\n", "y = 2"])
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    done = write(tmp_path, "a.ipynb", text, [finding("a.ipynb", row) for row in (2, 3, 5, 6)])
    sources = [cell["source"] for cell in json.loads(document("a.ipynb", text).encode(done.texts["a.ipynb"]))["cells"]]
    assert sources == [
        [f"{IGNORE}\n", "!torchrun \\\n", "  --x\n", f"x = 1  {IGNORE}"],
        ["%%time\n", f"y = 2  {IGNORE}"],
    ]
    assert [skip.path for skip in done.skipped] == ["a.ipynb:5"]


@pytest.mark.parametrize(
    ("path", "text", "reason"),
    [
        ("a.json", '{"a": 1}\n', "baseline"),
        ("README.md", "torch\n", "baseline"),
        ("a.py", "def\n", "harmless"),
        ("a.yaml", "a: [\n", "read to its end|harmless"),
        ("a.py", "'''\n", "read to its end"),
        ("nowhere.py", "", "cannot be read"),
    ],
)
def test_what_gets_no_comment_is_told(path: str, text: str, reason: str, tmp_path: Path) -> None:
    done = write(tmp_path, path if text else "b.py", text, [finding(path, 1)])
    assert (done.texts, done.written) == ({}, [])
    assert len(done.skipped) == 1
    assert any(each in done.skipped[0].reason for each in reason.split("|"))


def test_unused_comments_are_not_silenced(tmp_path: Path) -> None:
    done = write(tmp_path, "a.py", f"x  {IGNORE}\n", [finding("a.py", 1, "PF002")])
    assert done.texts == {}
    assert "taken away" in done.skipped[0].reason


@pytest.mark.parametrize(
    "reason", ["", "  ", "\n", "#", "# noqa", "]", "-: why", "why \\", "*/", "// x", "\x00\x1b[31m", "x" * 999, "é"]
)
def test_any_reason_can_be_written(reason: str, tmp_path: Path) -> None:
    for path, text in (("a.py", "x = 1\n"), ("a.yaml", "x: 1\n"), ("Makefile", "X = 1\n"), ("b.jsonc", '{"x": 1}\n')):
        done = write(tmp_path, path, text, [finding(path, 1)], reason)
        assert len(done.written) == 1
        assert clean_reason(reason) in done.texts[path]
        assert done.texts[path].count("\n") - text.count("\n") in (0, 1)


# --- anything ---------------------------------------------------------------------------------------------------------

PYTHON = st.lists(
    st.sampled_from(
        [
            *("x = 1\n", "f(\n    1,\n    '''\n#''')\n", "x = 1 + \\\n    2\n", "# c\n", "\n", "s = '''\n  # x\n'''\n"),
            *("@d\n@e(\n 1)\ndef f(a,\n      b):\n    return 1\n", "if x:\n\ty = '#'  # c\nelse:\n\ty = 2\n", "x; y\n"),
            *(
                "# precfix: ignore[PF2] why\n",
                "z = 1  # precfix: ignore[PF1] # noqa\n",
                "f'''{\nx}'''\n",
                "é = 'ü'\r\n",
            ),
        ]
    ),
    max_size=8,
).map("".join)
YAML = st.lists(
    st.sampled_from(
        [
            *("a: 1\n", "b: |\n  x # y\n\n", "c: >-\n  x\n  # y\n", "d: 'x\n  y'\n", "e: plain\n  text\n", "f:\n- 1\n"),
            *(
                "g: {a: 1,\n  b: '#'}\n",
                "# c\n",
                "\n",
                "h: 1 # c\n",
                "- x\n",
                "---\n",
                "? a\n: b\n",
                "i: &x 1\r\n",
                "j: *x\n",
            ),
        ]
    ),
    max_size=8,
).map("".join)
TOML = st.lists(
    st.sampled_from(
        [
            "a{} = 1\n",
            "b{} = '''\n# x\n'''\n",
            "c{} = [\n  1, # c\n  2\n]\n",
            "[t{}]\n",
            "# c\n",
            "\n",
            "d{} = {{a = '#'}}\r\n",
        ]
    ),
    max_size=8,
).map(lambda parts: "".join(part.format(number) for number, part in enumerate(parts)))
SHELL = st.lists(
    st.sampled_from(
        [
            *("run --x\n", "run \\\n  --y\n", "cat <<E\n# x\nE\n", "x=(\n  a # c\n)\n", "echo '\n#'\n", "# c\n", "\n"),
            *(
                "if a; then\n\trun # c\nfi\n",
                "a | \\\n  b\r\n",
                "A=1 B=$(x\n y)\n",
                'echo "\\\n"\n',
                "case x in\n a) b;;\nesac\n",
            ),
        ]
    ),
    max_size=8,
).map("".join)


@settings(max_examples=examples(250))
@given(
    st.one_of(
        st.tuples(st.just("a.py"), PYTHON),
        st.tuples(st.just("a.yaml"), YAML),
        st.tuples(st.just("a.toml"), TOML),
        st.tuples(st.sampled_from(["a.sh", ".env", "Makefile", "Dockerfile", "requirements.txt"]), SHELL),
    ),
    st.sets(st.integers(1, 12), min_size=1, max_size=4),
)
def test_any_finding_is_silenced_or_told_and_nothing_else_changes(
    tmp_path_factory: pytest.TempPathFactory, file: tuple[str, str], rows: set[int]
) -> None:
    path, text = file
    root = tmp_path_factory.mktemp("any")
    before = document(path, text)
    findings = [finding(path, row) for row in sorted(rows) if before.line(row).split("#")[0].strip()]
    done = write(root, path, text, findings, "why")
    assert len(done.written) + len(done.skipped) == len(findings)
    assert {each.path for each in done.written} == ({path} if path in done.texts else set())
    if path in done.texts:
        after = document(path, done.texts[path])
        check_same(before, after)
        check_silenced(before, after, done.written)


def check_same(before: Document, after: Document) -> None:
    left = after.text.replace("  # precfix: ignore[PF101] why", "")
    rest = [line for line in left.splitlines() if line.strip() not in ("# precfix: ignore[PF101] why", "")]
    merged = {"# precfix: ignore[PF101, PF2] why": "# precfix: ignore[PF2] why", "ignore[PF1, PF101]": "ignore[PF1]"}
    for new, old in merged.items():
        rest = [line.replace(new, old) for line in rest]
    assert rest == [line for line in before.text.splitlines() if line.strip()]
    if before.path.endswith(".py"):
        assert ast.dump(before.tree) == ast.dump(after.tree)
    elif before.path.endswith(".yaml"):
        assert list(yaml.compose_all(before.text, yaml.SafeLoader)) is not None
        assert [*map(_data, yaml.parse(before.text))] == [*map(_data, yaml.parse(after.text))]
    elif before.path.endswith(".toml"):
        assert tomlkit.parse(before.text).unwrap() == tomlkit.parse(after.text).unwrap()


def _data(event: yaml.Event) -> tuple[object, ...]:
    return type(event), getattr(event, "value", None), getattr(event, "tag", None), getattr(event, "anchor", None)


def check_silenced(before: Document, after: Document, findings: Iterable[Finding]) -> None:
    """Each finding is silenced where its row stands now; rows without findings have at most the comments they had."""
    from precfix.codemod.screening.suppressions import suppressions_of

    matcher = rows_after(before, after)
    for each in findings:
        now = matcher[each.span.row]
        assert any("PF101" in one.codes and one.covers(now) for one in suppressions_of(after)), (
            before.text,
            after.text,
        )


def rows_after(before: Document, after: Document) -> dict[int, int]:
    """Old row -> new row: comments on rows of their own are the only rows that were added."""
    moved, new = {}, 1
    for row in range(1, before.rows + 1):
        while (
            after.line(new).strip() == "# precfix: ignore[PF101] why"
            and before.line(row).strip() != after.line(new).strip()
        ):
            new += 1
        moved[row] = new
        new += 1
    return moved
