"""The command line in odd surroundings: closed and full streams, signals, a hostile current folder, odd outputs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from . import warm
from .project_tree import write_tree

COMMAND = (sys.executable, "-m", "precfix.codemod")
SOURCE = "import torch\nfrom torch.cuda.amp import autocast\nwith autocast():\n    pass\n"
FULL = Path("/dev/full")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "project", {"train.py": SOURCE, "requirements.txt": "torch>=2.4\n"})


def precfix(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return warm.text(warm.precfix(*arguments, cwd=cwd))


def started(*arguments: object, redirect: str = "", cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The real command, started by a shell."""
    words = (*COMMAND, *map(str, arguments))
    script = f'exec "$@" {redirect}'
    return subprocess.run(["sh", "-c", script, "sh", *words], capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", [(1,), (2,), (1, 2), (0, 1, 2)])
def test_closed_streams_change_neither_result_nor_files(tree: Path, closed: tuple[int, ...]) -> None:
    assert warm.precfix("check", tree, closed=closed).returncode == 1
    assert warm.precfix("migrate", tree, closed=closed).returncode == 0
    assert (tree / "train.py").read_text() == SOURCE.replace("torch.cuda.amp", "torch.amp").replace("()", '("cuda")')


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_command_started_without_streams_does_its_work(tree: Path) -> None:
    assert started("migrate", tree, redirect="<&- >&- 2>&-").returncode == 0
    assert (tree / "train.py").read_text() == SOURCE.replace("torch.cuda.amp", "torch.amp").replace("()", '("cuda")')


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["rules"], ["explain", "PF101"], ["check", "."]])
def test_a_full_disk_behind_stdout_is_one_message(tree: Path, arguments: list[str]) -> None:
    with FULL.open("wb") as full:
        result = warm.text(warm.precfix(*arguments, stdout=full.fileno(), cwd=tree))
    assert (result.returncode, result.stderr) == (2, "precfix: No space left on device\n")


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
def test_python_adds_nothing_at_its_end(tree: Path) -> None:
    """It flushes stdout once more when it ends; what a full disk makes of that must not be seen."""
    for arguments in (["--version"], ["check", "."]):
        result = started(*arguments, redirect=f">{FULL}", cwd=tree)
        assert (result.returncode, result.stderr) == (2, "precfix: No space left on device\n")


@pytest.mark.parametrize("arguments", [["--version"], ["--help"], ["rules"], ["explain", "PF101"], ["check", "."]])
def test_a_reader_that_went_away_is_no_error_message(tree: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert warm.precfix(*arguments, stdout=writing, cwd=tree).stderr == b""
    os.close(writing)


def test_nor_is_it_when_python_ends(tree: Path) -> None:
    for arguments in (["--version"], ["check", "."]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False, cwd=tree)
        os.close(writing)
        assert done.stderr == b""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_control_c_at_any_moment_is_one_message(tree: Path) -> None:
    for number in range(300):
        (tree / f"more{number}.py").write_text(SOURCE)
    codes = set()
    for wait in (0.06, 0.1, 0.2, 0.4):
        process = subprocess.Popen([*COMMAND, "check", str(tree)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
        codes.add(process.returncode)
        if process.returncode == 130:
            assert messages == b"precfix: interrupted\n"
    assert 130 in codes


def test_modules_of_the_current_folder_are_not_imported(tree: Path) -> None:
    trap = 'open("executed", "w").close()\n'
    names = ("typer", "yaml", "rich", "libcst", "tomlkit", "pathspec", "ast", "difflib", "torch", "gc", "click")
    for name in names:
        (tree / f"{name}.py").write_text(trap)
    result = started("migrate", ".", "--dry-run", cwd=tree)
    assert (result.returncode, result.stderr.splitlines()[0]) == (1, "train.py +2 -2")
    assert not (tree / "executed").exists()


@pytest.mark.skipif(os.name == "nt", reason="a current folder cannot be removed there")
def test_a_current_folder_that_is_gone(tree: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    command = ["sh", "-c", script, "sh", *COMMAND, "check"]
    here = subprocess.run([*command, "."], capture_output=True, text=True, check=False, cwd=tree)
    assert (here.returncode, here.stderr.splitlines()[-1]) == (2, "precfix: '.': no such file or directory")
    there = subprocess.run([*command, str(tree)], capture_output=True, text=True, check=False, cwd=tree)
    assert there.returncode == 1


def test_an_empty_path_is_not_the_current_folder(tree: Path) -> None:
    for command in ("check", "migrate", "undo"):
        result = precfix(command, "", cwd=tree)
        assert result.returncode == 2
        assert "an empty path" in result.stderr
    assert (tree / "train.py").read_text() == SOURCE


@pytest.mark.parametrize("option", ["-o", "--patch"])
@pytest.mark.parametrize("name", ["train.py", "config.yaml", "link.out"])
def test_a_result_never_overwrites_a_source_file(tree: Path, option: str, name: str) -> None:
    write_tree(tree, {"config.yaml": "lr: 1\n"})
    (tree / "link.out").symlink_to("train.py")
    before = (tree / name).read_text()
    result = precfix("migrate", tree, option, tree / name)
    assert result.returncode == 2
    assert "is a file of the project" in result.stderr
    assert (tree / name).read_text() == before
    assert (tree / "train.py").read_text() == SOURCE


def test_an_earlier_result_inside_the_project_is_overwritten(tree: Path) -> None:
    for _ in range(2):
        assert precfix("check", tree, "--output-format", "json", "-o", tree / "report.json").returncode == 1
        assert precfix("migrate", tree, "--patch", tree / "x.diff").returncode == 1


def test_a_json_file_with_a_finding_is_not_overwritten(tree: Path) -> None:
    write_tree(tree, {"ds_config.json": '{"bf16": {"enabled": true, "loss_scale": 0}}'})
    result = precfix("check", tree, "-o", tree / "ds_config.json")
    assert (result.returncode, "is a file of the project" in result.stderr) == (2, True)


@pytest.mark.parametrize("target", ["missing/x.txt", "."])
def test_nothing_is_applied_when_the_result_has_no_place(tree: Path, target: str) -> None:
    result = precfix("migrate", tree, "-o", tree / target)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "cannot be written" in result.stderr
    assert (tree / "train.py").read_text() == SOURCE


@pytest.mark.parametrize("others", ["", "threading.Thread(target=wait).start()"])
def test_a_command_that_ends_at_once_leaves_nothing_undone(tree: Path, others: str) -> None:
    script = f"""
import atexit, os, sys, threading, time
from precfix.codemod.__main__ import main
def wait():
    time.sleep(1)
    os.write(2, b"waited for. ")
atexit.register(os.write, 2, b"registered. ")
{others}
sys.argv[1:] = ["check", {str(tree)!r}, "-q"]
main()
"""
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stdout.count("PF301") == 1
    assert result.stderr == ("waited for. registered. " if others else "registered. ")
