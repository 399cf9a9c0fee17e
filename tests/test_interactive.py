"""``migrate --interactive`` on a real pseudo-terminal: every answer, odd terminals, hostile projects."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .project_tree import write_tree
from .test_cli import AFTER as DROPPED
from .test_cli import LOOP as LOOP_AFTER_A_NEWLINE

if sys.platform == "win32":
    pytest.skip("needs a pseudo-terminal", allow_module_level=True)

from .terminal_session import END, INTERRUPT, TerminalSession

ARGUMENTS = ("migrate", "--interactive", "--select", "PF101,PF301")
COMMAND = (sys.executable, "-m", "precfix.codemod", *ARGUMENTS)

LOOP = LOOP_AFTER_A_NEWLINE.lstrip("\n")
DISABLED = LOOP.replace('"cuda")\n    for', '"cuda", enabled=False)\n    for')

REMARKS = ("Type one of the letters", "There is no fix with this number", "That is not possible here")
Ask = Callable[..., TerminalSession]


@pytest.fixture
def ask(tmp_path: Path) -> Iterator[Ask]:
    """Start the command over a project made of files."""
    sessions = []

    def start(files: dict[str, str], *options: str, size: tuple[int, int] = (24, 80), **env: str) -> TerminalSession:
        tree = write_tree(tmp_path / "project", files)
        session = TerminalSession((*ARGUMENTS, str(tree), *options), tree, {"TERM": "dumb", **env}, size)
        sessions.append(session)
        return session

    yield start
    for session in sessions:
        session.close()


def test_each_finding_is_shown_with_its_diff_and_only_yes_is_yes(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP, "b.py": LOOP})
    first = session.question()
    assert "[1/2] a.py:4:14 PF101 grad-scaler-under-bf16" in first
    assert '4 |     scaler = torch.amp.GradScaler("cuda")' in first
    assert "Fix 1 [safe] drop: remove the scaler" in first
    assert "=== a.py\n@@ -1,10 +1,8 @@\n import torch\n" in first
    assert '\n-    scaler = torch.amp.GradScaler("cuda")\n' in first
    assert "\n+        optimizer.step()\n" in first
    assert "\n  2 [safe] disable: " in first
    assert first.endswith("Apply this fix [y,n,a,d,e,1-2,q,?]? ")
    for garbage in ("x", "yy", "0", "3", "99999999999999999999", "²", "m", b"\xff\xfe\n", "y n", b"\x1b[A\n"):
        again = session.type(garbage)
        assert any(words in again for words in REMARKS)
        assert "[2/2]" not in again
    assert session.type("").count("Apply this fix") == 1
    assert "[2/2] b.py:4:14" in session.type("n")
    session.finish("Yes")
    assert session.text.rstrip().endswith("precfix: 1 fix accepted, 1 declined")
    assert (tmp_path / "project/a.py").read_text() == LOOP
    assert (tmp_path / "project/b.py").read_text() == DROPPED
    assert session.code == 1
    assert "Applied 1 fix in 1 file" in session.result


def test_help_and_evidence_leave_the_question_open(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP})
    session.question()
    explained = session.type("?")
    for key in ("y ", "n ", "a ", "d ", "e ", "1-2 ", "q ", "? "):
        assert f"\n  {key}" in explained
    assert "\n  m " not in explained
    evidence = session.type("e")
    assert "Evidence 1: a.py:6:14 autocast computes in bfloat16" in evidence
    assert '6 |         with torch.autocast("cuda", dtype=torch.bfloat16):' in evidence
    assert "Evidence 2: a.py:8:9 the scaler is used here" in evidence
    session.finish("y")
    assert (tmp_path / "project/a.py").read_text() == DROPPED
    assert session.code == 0


def test_the_alternative_that_was_chosen_is_shown_and_written(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP})
    session.question()
    shown = session.type("2")
    assert "Fix 2 [safe] disable: " in shown
    assert '+    scaler = torch.amp.GradScaler("cuda", enabled=False)' in shown
    assert "  1 [safe] drop: " in shown
    session.finish("y")
    assert (tmp_path / "project/a.py").read_text() == DISABLED


def test_an_answer_for_the_whole_rule_covers_later_files(ask: Ask, tmp_path: Path) -> None:
    """The other rule is still asked about."""
    names = ("a.py", "b.py", "sub/c.py")
    old = "import torch\nfrom torch.cuda.amp import autocast\nwith autocast():\n    pass\n"
    session = ask({**dict.fromkeys(names, LOOP), "z.py": old})
    assert "[1/4]" in session.question()
    session.type("2")
    assert "[4/4] z.py:3:6 PF301" in session.type("a")
    session.finish("n")
    assert [(tmp_path / "project" / name).read_text() for name in names] == [DISABLED] * 3
    assert (tmp_path / "project/z.py").read_text() == old


def test_the_end_of_input_keeps_what_was_accepted(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP, "b.py": LOOP, "c.py": LOOP})
    session.question()
    session.type("y")
    rest = session.finish(END)
    assert "No further questions; 1 accepted fix kept.\n" in rest
    assert rest.endswith("precfix: 1 fix accepted, 0 declined, 2 not asked about\n")
    assert [(tmp_path / "project" / name).read_text() for name in ("a.py", "b.py", "c.py")] == [DROPPED, LOOP, LOOP]


def test_control_c_writes_nothing_at_all(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP, "b.py": LOOP})
    session.question()
    session.type("y")
    rest = session.finish(INTERRUPT)
    assert rest.endswith("\nprecfix: interrupted\n")
    assert session.code == 130
    assert session.result == ""
    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == ["a.py", "b.py"]
    assert [(tmp_path / "project" / name).read_text() for name in ("a.py", "b.py")] == [LOOP, LOOP]


def test_a_file_that_changes_while_the_question_is_open_stays(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP, "b.py": LOOP})
    session.question()
    session.type("y")
    (tmp_path / "project/a.py").write_text("# new\n" + LOOP)
    assert "has changed since it was read; nothing was written" in session.finish("y")
    assert session.code == 2
    assert [(tmp_path / "project" / name).read_text() for name in ("a.py", "b.py")] == ["# new\n" + LOOP, LOOP]


def test_a_dry_run_prints_the_diff_of_what_was_chosen_and_nothing_else(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP, "b.py": LOOP}, "--dry-run")
    session.question()
    session.type("n")
    session.finish("y")
    assert session.result.startswith("diff --git a/b.py b/b.py\n--- a/b.py\n+++ b/b.py\n")
    assert "a/a.py" not in session.result
    assert (tmp_path / "project/b.py").read_text() == LOOP


def test_a_colored_terminal_and_a_tiny_window(ask: Ask, tmp_path: Path) -> None:
    session = ask({"a.py": LOOP}, size=(3, 12), TERM="xterm-256color", NO_COLOR="")
    first = session.question()
    assert "\x1b[32m+        loss.backward()\x1b[0m\n" in first
    assert "\x1b[1;31m-        scaler.update()\x1b[0m\n" in first
    assert first.endswith("Apply this fix [y,n,a,d,e,1-2,q,?]? ")
    session.finish("y")
    assert (tmp_path / "project/a.py").read_text() == DROPPED


@pytest.mark.parametrize(
    "env",
    [
        {"TERM": "xterm-256color", "NO_COLOR": "1"},
        {"TERM": "dumb", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
)
def test_terminals_without_color_and_without_unicode(ask: Ask, tmp_path: Path, env: dict[str, str]) -> None:
    """Whatever the project holds, only printable characters reach the terminal."""
    text = LOOP.replace("import torch\n", "import torch  # ü \x1b[2J\x07 \u202e\u2028\n", 1)
    session = ask({"na\x1b]0;x\x07mé.py": text}, **env)
    first = session.question()
    assert "\x1b" not in session.text
    assert "\x07" not in session.text
    assert "\u202e" not in session.text
    assert "na\\x1b]0;x\\x07m" in first
    assert "\\x1b[2J" in first
    session.finish("y")
    assert (tmp_path / "project/na\x1b]0;x\x07mé.py").read_bytes().decode() == text.replace(LOOP[13:], DROPPED[13:])


def test_a_notebook_is_shown_by_cell_as_its_author_wrote_it(ask: Ask, tmp_path: Path) -> None:
    lines = LOOP.splitlines(keepends=True)
    cells = [{"cell_type": "markdown", "metadata": {}, "source": ["# title\n"]}]
    for source in (["!pip install torch\n", "import os"], [*lines[:3], "    !nvidia-smi\n", *lines[3:]]):
        cells.append({"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None})  # type: ignore[dict-item]
    book = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)
    session = ask({"run.ipynb": book})
    first = session.question()
    assert "run.ipynb:cell 3:5:14 PF101" in first
    assert "=== run.ipynb cell 3\n@@ -2,10 +2,8 @@\n \n def train(" in first
    assert "\n     !nvidia-smi\n-    scaler = " in first
    assert "magic" not in first
    assert "__precfix_cell" not in first
    session.finish("y")
    written = json.loads((tmp_path / "project/run.ipynb").read_text())
    assert "".join(written["cells"][2]["source"]) == DROPPED.replace("    for", "    !nvidia-smi\n    for", 1)


@pytest.mark.parametrize("redirect", ["</dev/null", "2>/dev/null"])
def test_without_a_terminal_nothing_is_asked_and_nothing_changes(tmp_path: Path, redirect: str) -> None:
    tree = write_tree(tmp_path / "project", {"a.py": LOOP})
    words = [*COMMAND, str(tree)]
    master, slave = os.openpty()
    session = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", *words], stdin=slave, stderr=slave, check=False
    )
    os.close(slave)
    said = b"" if "2>" in redirect else os.read(master, 4096)
    os.close(master)
    assert session.returncode == 2
    assert (b"--interactive needs a terminal: stdin" in said) == ("2>" not in redirect)
    assert (tree / "a.py").read_text() == LOOP
