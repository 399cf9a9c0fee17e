"""``--statistics`` and ``--show-fixes``: what they count and show, for check and migrate."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .cli_runs import AFTER, LOOP, Runner
from .project_tree import write_tree
from .test_screening import OPEN

COLOR = "\x1b["


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_tree(tmp_path, {"a.py": LOOP, "b.py": LOOP, "c.py": OPEN, "bad.py": "import torch\ndef (:\n"})


def rows(text: str) -> list[str]:
    """The lines of the table, blanks made single."""
    return [" ".join(line.split()) for line in text.splitlines() if re.match(r" +\d+  ", line)]


def test_check_counts_by_rule(run: Runner, project: Path) -> None:
    done = run("check", project, "--statistics")
    assert (done.code, done.err) == (1, "")
    assert rows(done.out) == [
        "2 PF101 grad-scaler-under-bf16 in 2 files 2 safe",
        "1 PF302 autocast-dtype-differs in 1 file 1 unsafe",
    ]
    assert "bad.py: not parsed" in done.out
    assert done.out.endswith("3 findings in 3 files\n")
    assert "GradScaler" not in done.out


def test_silenced_findings_are_a_number(run: Runner, project: Path) -> None:
    write_tree(project, {"precfix.toml": "per-file-ignores = {'b.py' = ['PF1']}\n"})
    assert run("check", project, "--statistics").out.endswith(
        "2 findings in 2 files, 1 finding silenced (settings 1)\n"
    )


def test_quiet_leaves_out_what_was_skipped(run: Runner, project: Path) -> None:
    done = run("check", project, "--statistics", "-q")
    assert len(rows(done.out)) == 2
    assert "bad.py" not in done.out


def test_nothing_found_is_one_line(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": "print(1)\n"})
    assert run("check", tmp_path, "--statistics").out == "0 findings in 0 files\n"


def test_exit_zero(run: Runner, project: Path) -> None:
    assert run("check", project, "--statistics", "--exit-zero").code == 0
    assert run("check", project / "bad.py", "--exit-zero").code == 2


def test_migrate_counts_what_is_left(run: Runner, project: Path) -> None:
    done = run("migrate", project, "--statistics", "--ignore", "PF102")
    assert done.code == 1
    assert rows(done.out) == [
        "2 PF101 grad-scaler-under-bf16 in 2 files 2 safe 0 left",
        "1 PF302 autocast-dtype-differs in 1 file 1 unsafe 1 left",
    ]
    assert (project / "a.py").read_text() == AFTER


def test_a_dry_run_keeps_the_patch_on_stdout(run: Runner, project: Path) -> None:
    done = run("migrate", project, "--dry-run", "--statistics", "--ignore", "PF102")
    assert done.out.startswith("diff --git a/a.py")
    assert rows(done.out) == []
    assert len(rows(done.err)) == 2


def test_color_is_as_asked(run: Runner, project: Path) -> None:
    for words in (["check", project, "--statistics"], ["check", project, "--show-fixes"]):
        assert COLOR not in run(*words).out
        colored = run(*words, "--color", "always").out
        assert COLOR in colored
        assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == run(*words, "--color", "never").out
    done = run("migrate", project, "--dry-run", "--show-fixes", "--color", "always")
    assert COLOR in done.err
    assert COLOR not in done.out


def test_check_shows_the_diff_of_each_fix(run: Runner, project: Path) -> None:
    done = run("check", project / "a.py", project / "c.py", "--show-fixes")
    assert done.code == 1
    plain = run("check", project / "a.py", project / "c.py").out
    assert set(plain.splitlines()) <= set(done.out.splitlines()), "all that check says is there as well"
    removed = [line.strip() for line in done.out.splitlines() if re.match(r"\s*-\s", line) or line.startswith("-")]
    assert any("GradScaler" in line for line in removed)
    assert "dtype=torch.bfloat16):" in done.out.partition("c.py:11")[2]
    assert (project / "a.py").read_text() == LOOP.lstrip("\n")


def test_the_fix_that_the_settings_choose_is_shown(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP, "precfix.toml": "fix = {PF101 = 'disable'}\n"})
    assert "enabled=False" in run("check", tmp_path, "--show-fixes").out.partition("disable:")[2]
    lines = run("check", tmp_path, "--show-fixes", "-q").out.splitlines()
    assert lines[0].startswith("a.py:4:14 PF101")
    assert any("enabled=False" in line for line in lines[1:])


def test_migrate_lists_every_fix(run: Runner, project: Path) -> None:
    done = run("migrate", project, "--show-fixes", "--unsafe-fixes")
    assert done.out.splitlines()[:3] == [
        "a.py:4:14 PF101 drop [safe]",
        "b.py:4:14 PF101 drop [safe]",
        "c.py:11:14 PF302 dtype [unsafe]",
    ]
    assert "Applied 3 fixes in 3 files; 0 findings left." in done.out
    done = run("migrate", project, "--show-fixes", "--dry-run")
    assert "Would apply 0 fixes in 0 files; 0 findings left." in done.err


def test_json_holds_the_numbers_anyway(run: Runner, project: Path) -> None:
    for words in (["check", project, "--statistics"], ["migrate", project, "--dry-run", "--show-fixes"]):
        summary = json.loads(run(*words, "--output-format", "json").out)["summary"]
        assert summary["findings"] == 3
        assert summary["by_code"] == {"PF101": 2, "PF302": 1}
        assert summary["by_applicability"]["safe"] == 2


def test_names_of_the_project_cannot_write_to_the_terminal(run: Runner, tmp_path: Path) -> None:
    (tmp_path / "a\x1b[31m.py").write_text(LOOP)
    for words in (["check", "--statistics"], ["check", "--show-fixes"], ["migrate", "--dry-run", "--show-fixes"]):
        done = run(words[0], tmp_path, *words[1:])
        assert COLOR not in done.err
        assert COLOR not in done.out or words[0] == "migrate"
