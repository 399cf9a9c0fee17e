"""The patch is given to the real ``git apply``; what counts is the bytes on disk afterwards."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from precfix.codemod.outcome import FileChange
from precfix.codemod.report.diff import line_edits, unified_diff
from precfix.codemod.report.matching import changed_blocks

from .nightly import examples

BODY = b"".join(b"line %d\n" % n for n in range(20))
CASES: dict[str, tuple[bytes, bytes]] = {
    "lf": (BODY, BODY.replace(b"line 7\n", b"seven\n")),
    "no-final-newline": (b"a\nb\nc", b"a\nB\nc"),
    "last-line-without-newline": (b"a\nb\nc", b"a\nb\nC"),
    "final-newline-added": (b"a\nb", b"a\nb\n"),
    "final-newline-removed": (b"a\nb\n", b"a\nb"),
    "crlf": (BODY.replace(b"\n", b"\r\n"), BODY.replace(b"line 7", b"seven").replace(b"\n", b"\r\n")),
    "mixed-endings": (b"a\r\nb\nc\r\nd\n", b"a\r\nb\nC\r\nd\n"),
    "cr-only": (b"a\rb\rc\r", b"a\rB\rc\r"),
    "lone-cr-inside": (b"a\rb\nc\n", b"a\rB\nc\n"),
    "form-feed": (b"\x0ca\n\x0c\nb\n", b"\x0ca\n\x0c\nB\n"),
    "vertical-tab": (b"a\x0bb\nc\n", b"a\x0bB\nc\n"),
    "next-line": ("a\x85b\nc\n".encode(), "a\x85B\nc\n".encode()),
    "line-separator": ("a\u2028b\nc\u2029\n".encode(), "a\u2028B\nc\u2029\n".encode()),
    "latin-1": (b"# \xe9\xff\x85\nx = 1\n", b"# \xe9\xff\x85\nx = 2\n"),
    "bom": (b"\xef\xbb\xbfx = 1\n", b"\xef\xbb\xbfx = 2\n"),
    "nul": (b"a\x00b\nc\n", b"a\x00b\nC\n"),
    "utf-16": ("a\nb\nc\n".encode("utf-16"), "a\nB\nc\n".encode("utf-16")),
    "empty-before": (b"", b"x = 1\n"),
    "empty-after": (b"x = 1\n", b""),
    "only-newlines": (b"\n\n\n\n", b"\n\n"),
    "looks-like-a-patch": (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", b"--- a/x\n-- \n+++ b/y\n@@ -1 +1 @@\n"),
    "backslash-line": (b"\\ No newline at end of file\nx\n", b"\\ No newline at end of file\ny"),
    "trailing-blanks": (b"a \t\nb\n \n", b"a \t\nB \n \n"),
    "several-hunks": (BODY * 3, BODY.replace(b"line 2\n", b"") + BODY + BODY.replace(b"line 18\n", b"x\ny\n")),
}
NAMES = [
    *("my file.py", "tab\there.py", 'quo"te.py', "new\nline.py", "na\u00efve \u65e5\u672c.py", "back\\slash.py"),
    *("bad\udcff.py", "a/b/c d/e.py", "x b/x", "trailing ", "dev/null", "bell\x07esc\x1b.py", "\U0001f525.py"),
    *("-dash.py", "a b\tc.py"),
]


def git(folder: Path, *arguments: str, data: bytes = b"") -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    environment |= {"GIT_CEILING_DIRECTORIES": str(folder.parent), "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(
        ["git", *arguments], cwd=folder, input=data, capture_output=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace") + repr(data)


def check_applies(root: Path, changes: list[FileChange], *, in_repository: bool, below: str = ".") -> None:
    project = root / below
    for change in changes:
        (project / change.path).parent.mkdir(parents=True, exist_ok=True)
        (project / change.path).write_bytes(change.before)
        (project / change.path).chmod(0o755)
    if in_repository:
        git(root, "init", "-q")
        git(root, "add", "-A")
    patch = unified_diff(changes)
    git(project, "apply", "--check", data=patch)
    git(project, "apply", data=patch)
    for change in changes:
        assert (project / change.path).read_bytes() == change.after
        assert (project / change.path).stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("in_repository", [True, False])
@pytest.mark.parametrize("case", CASES)
def test_git_apply_yields_exactly_the_new_bytes(tmp_path: Path, case: str, in_repository: bool) -> None:
    before, after = CASES[case]
    check_applies(tmp_path, [FileChange("x.py", before, after)], in_repository=in_repository)


@pytest.mark.parametrize("in_repository", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_git_apply_understands_every_name(tmp_path: Path, name: str, in_repository: bool) -> None:
    check_applies(tmp_path, [FileChange(name, b"a\nb\n", b"a\nc\n")], in_repository=in_repository)


def test_one_patch_for_many_files_also_in_a_subfolder(tmp_path: Path) -> None:
    changes = [FileChange(f"d/{n}.py", *pair) for n, pair in enumerate(CASES.values())]
    changes += [FileChange(name, b"1\n", b"2\n") for name in NAMES]
    check_applies(tmp_path / "a", changes, in_repository=False)
    (tmp_path / "b").mkdir()
    check_applies(tmp_path / "b", changes, in_repository=True, below="project")


@pytest.mark.parametrize("setting", ["true", "input"])
def test_git_apply_with_line_ending_conversion(tmp_path: Path, setting: str) -> None:
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "core.autocrlf", setting)
    check_applies(tmp_path, [FileChange("x.py", *CASES["crlf"])], in_repository=True)


def test_quoting_is_the_same_as_git_diff(tmp_path: Path) -> None:
    changes = [FileChange(name, b"a\n", b"b\n") for name in NAMES]
    for change in changes:
        (tmp_path / change.path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / change.path).write_bytes(change.before)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    for change in changes:
        (tmp_path / change.path).write_bytes(change.after)
    theirs = subprocess.run(["git", "diff"], cwd=tmp_path, capture_output=True, check=True).stdout
    wanted = {line for line in theirs.split(b"\n") if not line.startswith(b"index ")}
    assert set(unified_diff(changes).split(b"\n")) == wanted


def test_unchanged_files_leave_no_trace() -> None:
    assert unified_diff([FileChange("x.py", b"a", b"a")]) == b""
    assert unified_diff([]) == b""


def test_a_small_edit_gives_a_small_patch() -> None:
    before, after = CASES["lf"]
    assert unified_diff([FileChange("x.py", before, after)]) == (
        b"diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -5,7 +5,7 @@\n"
        b" line 4\n line 5\n line 6\n-line 7\n+seven\n line 8\n line 9\n line 10\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([b"0,\n"] * 60_000, [b"0,\n", b"1,\n"] * 30_000),
        ([b"%d\n" % n for n in range(60_000)], [b"%d\n" % n if n % 2 else b"x\n" for n in range(60_000)]),
        ([b"a\n", b"b\n"] * 30_000, [b"b\n", b"a\n", b"c\n"] * 20_000),
        ([b"%d\n" % n for n in range(60_000)], [b"%d\n" % n for n in reversed(range(60_000))]),
        ([b"%d\n" % (n % 300) for n in range(60_000)], [b"%d\n" % (n % 301) for n in range(59_999)]),
    ],
    ids=["repeated", "every-second", "three-words", "reversed", "cycles"],
)
def test_large_files_do_not_take_quadratic_time(before: list[bytes], after: list[bytes]) -> None:
    start = time.process_time()
    blocks = changed_blocks(before, after)
    assert time.process_time() - start < 5
    assert rebuilt(before, after, blocks) == after


def rebuilt(before: list[bytes], after: list[bytes], blocks: list[tuple[int, int, int, int]]) -> list[bytes]:
    """``after`` from ``before`` and only those lines of ``after`` that lie in blocks."""
    out, i = [], 0
    for i1, i2, j1, j2 in blocks:
        assert i1 >= i
        assert (i1, j1) != (i2, j2)
        out += before[i:i1] + after[j1:j2]
        i = i2
    return out + before[i:]


lines = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"\n", b"d\r\n"]), max_size=12)


@settings(max_examples=examples(200))
@given(lines, lines)
def test_blocks_rebuild_the_new_lines(before: list[bytes], after: list[bytes]) -> None:
    assert rebuilt(before, after, changed_blocks(before, after)) == after


def edited(text: str, path: str, after: str) -> str:
    starts = [0]
    for at, char in enumerate(text):
        if char == "\n" or (char == "\r" and text[at + 1 : at + 2] != "\n"):
            starts.append(at + 1)
    out, at = "", 0
    for edit in line_edits(path, text, after):
        start = starts[edit.span.row - 1] + edit.span.column - 1
        out += text[at:start] + edit.content
        at = starts[edit.span.end_row - 1] + edit.span.end_column - 1
        assert at >= start
    return out + text[at:]


texts = st.text(alphabet="ab\r\n\x0c\u2028\U0001f525", max_size=25)


@settings(max_examples=examples(500))
@given(texts, texts)
def test_line_edits_rebuild_the_text(before: str, after: str) -> None:
    assert edited(before, "x.py", after) == after


def test_line_edits_are_narrow() -> None:
    (edit,) = line_edits("x.py", "a = 1\r\nb = GradScaler(x)\r\n", "a = 1\r\nb = GradScaler(x, enabled=False)\r\n")
    assert (edit.span.row, edit.span.column, edit.span.end_row, edit.span.end_column) == (2, 17, 2, 17)
    assert edit.content == ", enabled=False"
    (edit,) = line_edits("x.py", "a\nb\nc\n", "a\nc\n")
    assert (edit.span.row, edit.span.column, edit.span.end_row, edit.span.end_column, edit.content) == (2, 1, 3, 1, "")
    assert line_edits("x.py", "same", "same") == ()
