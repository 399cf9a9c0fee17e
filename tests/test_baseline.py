"""The baseline: what is known is not told again, what is new is; its file is stable, mergeable and never trusted."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from .cli_runs import AFTER, LOOP, SCALER_ROW, Runner
from .project_tree import write_tree


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Runner:
    return Runner(capfd, monkeypatch)


@pytest.fixture
def project(run: Runner, tmp_path: Path) -> Path:
    """A project with a finding that its baseline knows, and settings that name the baseline."""
    write_tree(tmp_path, {"src/a.py": LOOP, "precfix.toml": "baseline = 'known.json'\n", ".git/HEAD": ""})
    done = run("check", tmp_path, "--write-baseline", tmp_path / "known.json")
    assert (done.code, done.out) == (0, "")
    assert "1 finding written to" in done.err
    return tmp_path


def entries(root: Path) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads((root / "known.json").read_text())["findings"]
    return found


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_what_is_known_is_not_told_again(run: Runner, project: Path) -> None:
    done = run("check", project)
    assert (done.code, done.err) == (0, "")
    assert run.found(project) == []
    assert run.found(project, "--isolated") == ["src/a.py:4 PF101"]
    write_tree(project, {"b.py": LOOP})
    assert run.found(project) == ["b.py:4 PF101"]


def test_the_option_goes_before_the_settings(run: Runner, project: Path) -> None:
    (project / "empty.json").write_text('{"version": 1, "findings": []}')
    assert run.found(project, "--baseline", project / "empty.json") == ["src/a.py:4 PF101"]
    assert run.found(project, "--isolated", "--baseline", project / "known.json") == []


def test_it_holds_while_lines_move_and_others_change(run: Runner, project: Path) -> None:
    file = project / "src/a.py"
    file.write_text("# one\n# two\n" + file.read_text())
    edit(file, "batches:", "batches:  # all of them")
    assert run.found(project) == []
    edit(file, SCALER_ROW, SCALER_ROW.replace("    ", "\t\t").replace("\t\t", "    ", 1))
    assert run.found(project) == []


def test_an_edited_line_comes_back(run: Runner, project: Path) -> None:
    edit(project / "src/a.py", 'GradScaler("cuda")', 'GradScaler("cuda", init_scale=2.0)')
    done = run("check", project)
    assert done.code == 1
    assert "PF101" in done.out
    assert "1 of the findings in" in done.err
    assert "no longer occur" in done.err


def test_equal_lines_are_counted(run: Runner, project: Path) -> None:
    edit(project / "src/a.py", "import torch\n", "import torch\n\n")
    second = LOOP.replace("def train", "def again").replace("\nimport torch\n", "\n")
    file = project / "src/a.py"
    file.write_text(file.read_text() + second)
    rows = run.found(project)
    assert len(rows) == 1, "one of two equal lines is known"
    assert run("check", project, "--write-baseline", project / "known.json").code == 0
    assert [entry["count"] for entry in entries(project)] == [2]
    assert run.found(project) == []


def test_it_holds_wherever_precfix_is_started(run: Runner, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pre-commit names files, an editor pipes one, and somebody checks a folder: the entries are the same."""
    for paths in ([project / "src"], [project / "src/a.py"], [project / "src/a.py", project / "precfix.toml"]):
        assert run.found(*paths) == [], paths
    text = (project / "src/a.py").read_bytes()
    assert run.found("-", "--stdin-filename", project / "src/a.py", stdin=text) == []
    monkeypatch.chdir(project / "src")
    assert run.found(".") == []
    assert run.found("../src/a.py", "--baseline", "../known.json") == []


def test_only_what_this_run_could_meet_is_called_outdated(run: Runner, project: Path) -> None:
    write_tree(project, {"b.py": LOOP, "in/c.py": LOOP})
    run("check", project, "--write-baseline", project / "known.json")
    for arguments in (["src"], ["b.py"], [".", "--select", "PF2"], [".", "--exclude", "in"], [".", "--ignore", "PF1"]):
        done = run("check", project / arguments[0], *arguments[1:])
        assert (done.code, done.err) == (0, ""), arguments
    (project / "b.py").unlink()
    (project / "in/c.py").write_text(LOOP + "def broken(:\n")
    done = run("check", project)
    assert (done.code, done.err.count("1 of the findings")) == (0, 1)
    done = run("check", project / "src")
    assert done.err == ""


def test_the_file_is_the_same_every_time_and_one_entry_a_line(run: Runner, project: Path) -> None:
    write_tree(project, {"b.py": LOOP, "ä ö.py": LOOP})
    known = project / "known.json"
    run("check", project, "--write-baseline", known)
    first = known.read_text()
    run("check", project, "--write-baseline", known)
    assert known.read_text() == first
    run("check", project / "b.py", project / "src", project / "ä ö.py", "--write-baseline", known)
    assert known.read_text() == first
    lines = first.split("\n")
    assert [line.count('"fingerprint"') for line in lines] == [0, 0, 0, 1, 1, 1, 0, 0, 0]
    assert [entry["filename"] for entry in entries(project)] == ["b.py", "src/a.py", "ä ö.py"]
    assert entries(project)[0]["line"] == SCALER_ROW.strip()
    assert first.isascii()
    assert str(project) not in first
    run("check", project, "--isolated", "--select", "PF2", "--write-baseline", project / "none.json")
    assert json.loads((project / "none.json").read_text()) == {"version": 1, "findings": []}


def test_migrate_leaves_what_is_known_alone(run: Runner, project: Path) -> None:
    before = (project / "src/a.py").read_bytes()
    write_tree(project, {"b.py": LOOP})
    shutil.rmtree(project / ".git")
    done = run("migrate", project)
    assert done.code == 0
    assert (project / "src/a.py").read_bytes() == before
    assert (project / "b.py").read_text() == AFTER
    assert run("migrate", project, "--isolated", "--dry-run").code == 1


def test_what_is_known_stays_known_when_a_fix_edits_its_line(run: Runner, tmp_path: Path) -> None:
    old = LOOP.replace('torch.amp.GradScaler("cuda")', "torch.cuda.amp.GradScaler()")
    write_tree(tmp_path, {"a.py": old, "requirements.txt": "torch>=2.4\n"})
    run("check", tmp_path, "--select", "PF101", "--write-baseline", tmp_path / "known.json")
    assert [entry["code"] for entry in entries(tmp_path)] == ["PF101"]
    done = run("migrate", tmp_path, "--baseline", tmp_path / "known.json")
    assert "PF301" in done.out
    assert "PF101" not in done.out
    assert (tmp_path / "a.py").read_text() == LOOP.lstrip("\n"), "the scaler is spelled anew, and stays"


def test_writing_refuses_what_would_contradict(run: Runner, project: Path) -> None:
    known = project / "known.json"
    for more in (["--baseline", known], ["--diff-base", "HEAD"], ["--add-ignore"]):
        done = run("check", project, "--write-baseline", known, *more)
        assert (done.code, done.out) == (2, "")
        assert done.err.count("\n") == 1
    done = run("check", "-", "--write-baseline", known, stdin=b"")
    assert done.code == 2
    assert "standard input" in done.err


@pytest.mark.parametrize("name", ["src/a.py", "other.json", "notes.md", "gone/known.json", "src"])
def test_writing_overwrites_nothing_but_a_baseline(run: Runner, project: Path, name: str) -> None:
    write_tree(project, {"other.json": '{"fp16": true}\n', "notes.md": "notes\n"})
    before = {path: path.read_bytes() for path in sorted(project.rglob("*")) if path.is_file()}
    done = run("check", project, "--write-baseline", project / name)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert {path: path.read_bytes() for path in sorted(project.rglob("*")) if path.is_file()} == before


def test_writing_follows_no_link(run: Runner, tmp_path: Path) -> None:
    """A project may bring ``known.json -> ~/.profile`` along."""
    outside = tmp_path / "profile"
    root = write_tree(tmp_path / "project", {"a.py": LOOP})
    (root / "known.json").symlink_to(outside)
    done = run("check", root, "--write-baseline", root / "known.json")
    assert done.code == 2
    assert "link" in done.err
    assert not outside.exists()
    done = run("check", root, "-o", root / "known.json")
    assert done.code == 2
    assert "leads out of the project" in done.err
    assert not outside.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        "3",
        '"version"',
        '{"version": 1}',
        '{"version": 2, "findings": []}',
        '{"version": 1, "findings": {}, "x": ',
        '{"version": 1, "findings": 3}',
        '{"version": 1, "findings": [3]}',
        '{"version": 1, "findings": [{"fingerprint": "a"}]}',
        '{"version": 1, "findings": [{"filename": "a", "code": "b", "fingerprint": "c", "count": 0}]}',
        '{"version": 1, "findings": [{"filename": "a", "code": "b", "fingerprint": "c", "count": true}]}',
        '{"version": 1, "findings": [{"filename": "a", "code": "b", "fingerprint": "c", "count": 1e9}]}',
        '{"version": 1, "findings": [{"filename": 1, "code": "b", "fingerprint": "c", "count": 1}]}',
        '{"version": 1, "findings": [{"filename": "a", "code": "b", "fingerprint": ["c"], "count": 1}]}',
        "[" * 100_000,
        '{"version": ' + "9" * 10_000 + "}",
    ],
)
def test_a_damaged_baseline_is_one_line(run: Runner, tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"a.py": LOOP})
    (tmp_path / "known.json").write_text(text)
    done = run("check", tmp_path, "--baseline", tmp_path / "known.json")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "known.json: " in done.err
    assert len(done.err) < 500


def test_odd_entries_do_no_harm(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP})
    entry = {"code": "PF101", "fingerprint": "x" * 32, "count": 10**30}
    names = ["../../etc/passwd", "/etc/passwd", "a\0b", "", "..", "a.py", "x" * 5000]
    found = [{**entry, "filename": name, "fingerprint": name} for name in names]
    (tmp_path / "known.json").write_text(json.dumps({"version": 1, "findings": found, "more": [1]}))
    assert run.found(tmp_path, "--baseline", tmp_path / "known.json") == ["a.py:4 PF101"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
def test_a_baseline_that_is_no_file_is_refused(run: Runner, tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.py": LOOP})
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for name in ("fifo", "link", "gone", "."):
        done = run("check", tmp_path, "--baseline", tmp_path / name)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), name


def test_a_merge_of_two_baselines_is_read(run: Runner, project: Path) -> None:
    """Both branches added an entry: their lines stand one below the other, and one may stand there twice."""
    write_tree(project, {"b.py": LOOP})
    run("check", project, "--write-baseline", project / "known.json")
    lines = (project / "known.json").read_text().split("\n")
    (project / "known.json").write_text("\n".join([*lines[:3], lines[3], *lines[3:]]))
    assert run.found(project) == []
