"""The scanned project is read and never run, nothing leaves the machine, and only git is started: seen by audit hooks.

This is the evidence for what docs/safety.md says.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .fixture_cases import write_files
from .test_peer_faults import AFTER, LOOP, git

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")

TRAP = 'is_trapped = open("{marker}", "w").close()\nautocast = GradScaler = bf16 = None\n'
TRAPPED = (
    *("yaml", "ast", "typing", "torch", "typer", "rich", "libcst", "tomlkit", "pathspec", "click", "json", "difflib"),
    *("sitecustomize", "usercustomize", "conftest", "setup", "noxfile", "precfix_rules", "pkg/__init__", "pkg/rules"),
    *("precfix/__init__", "codemod/__init__", "transforms/__init__", "probes/__init__"),
)
METADATA = {
    "evil-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n",
    "evil-1.0.dist-info/entry_points.txt": "[precfix.rules]\nevil = pkg.rules:rule\n[console_scripts]\nx = pkg:main\n",
    "evil-1.0.dist-info/RECORD": "",
    "evil.pth": "import pkg\n",
    "evil.egg-link": ".\n",
    "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "pkg"\nbackend-path = ["."]\n'
    '[project]\nname = "x"\n[project.entry-points."precfix.rules"]\nevil = "pkg.rules:rule"\n',
    "tox.ini": "[testenv]\ncommands = touch executed\n",
    ".pre-commit-config.yaml": "repos: []\n",
    "Makefile": "all:\n\ttouch executed; accelerate launch --mixed_precision bf16 train.py\n",
    ".envrc": "touch executed\n",
}
COMMANDS = (
    ["check", "."],
    ["check", ".", "--output-format", "json", "-o", "{outside}/report.json"],
    ["audit", "."],
    ["explain", "PF101"],
    ["explain", "RuntimeError: expected scalar type BFloat16 but found Float", "--project", "."],
    ["rules"],
    ["migrate", ".", "--dry-run", "--unsafe-fixes", "--to", "bf16-mixed"],
    ["migrate", ".", "--patch", "{outside}/fix.patch"],
    ["migrate", "."],
    ["undo", "."],
)
GIT = ["--no-pager", "--literal-pathspecs"]
Record = Mapping[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository full of traps, with one file to repair; ``outside`` beside it takes results."""
    top = tmp_path_factory.mktemp("watched")
    marker = top / "executed"
    trap = TRAP.format(marker=marker).encode()
    files = {f"{name}.py": trap for name in TRAPPED} | {name: text.encode() for name, text in METADATA.items()}
    project = write_files(top / "project", {"train.py": LOOP.encode(), **files})
    (top / "outside").mkdir()
    git(project, "init", "-q")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "x")
    return top


@pytest.fixture(scope="module")
def record(folder: Path) -> Record:
    commands = [[word.format(outside=folder / "outside") for word in words] for words in COMMANDS]
    program = str(Path(__file__).with_name("watched_run.py"))
    result = subprocess.run(
        [sys.executable, program, str(folder / "project"), str(folder / "record.json")],
        input=json.dumps(commands),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stdout + result.stderr
    found: Record = json.loads((folder / "record.json").read_text())
    return found


def events(record: Record, *names: str) -> Iterator[list[str]]:
    return (event for run in record["runs"] for event in run["events"] if event[0].startswith(names))


def test_the_commands_did_their_work(record: Record, folder: Path) -> None:
    codes = {" ".join(run["arguments"][:1]): run["code"] or 0 for run in record["runs"]}
    assert codes == {"check": 1, "audit": 0, "explain": 0, "rules": 0, "migrate": 0, "undo": 0}
    assert (folder / "project/train.py").read_text() == LOOP, "undone"
    assert (folder / "outside/fix.patch").read_text().count("\n+") > 2


def test_the_hook_sees_what_it_should(record: Record) -> None:
    """Without this an empty list of events would prove nothing."""
    assert any(events(record, "exec"))
    assert any(events(record, "import"))
    assert any(events(record, "open for writing"))
    assert any(events(record, "subprocess.Popen"))


def test_no_code_of_the_project_is_run_or_imported(record: Record, folder: Path) -> None:
    project = str(folder / "project")
    assert [event for event in events(record, "exec") if event[1].startswith(project) or event[2] == "True"] == []
    assert [event for event in events(record, "import") if event[2].startswith(project)] == []
    assert [name for name in record["loaded"] if name.startswith(project)] == []
    assert not (folder / "executed").exists()
    assert not (folder / "project/executed").exists()


def test_nothing_leaves_the_machine(record: Record) -> None:
    assert list(events(record, "socket.", "urllib.", "http.", "ftplib.", "smtplib.", "webbrowser.", "ctypes.")) == []
    assert not {"ssl", "http.client", "urllib.request", "ctypes", "torch", "numpy"} & set(record["modules"])


def test_git_is_the_only_program_and_its_arguments_are_these(record: Record, folder: Path) -> None:
    git_path = shutil.which("git")
    started = {tuple(event[1:]) for event in events(record, "subprocess.Popen")}
    shared = (
        *(git_path, git_path, "--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false"),
        *("-c", "core.quotePath=off", "-c", f"core.hooksPath={os.devnull}", "-c", "safe.directory=*"),
        *("-C", str(folder / "project")),
    )
    assert all(words[: len(shared)] == shared for words in started)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder / "project", capture_output=True, text=True)
    assert {words[len(shared) :] for words in started} == {
        ("rev-parse", "-q", "--verify", "HEAD^{commit}"),
        ("ls-files", "-s", "-z", "--", "train.py"),
        ("ls-tree", "-z", head.stdout.strip(), "--", "train.py"),
    }
    others = list(events(record, "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "pty."))
    assert others == []


def _is_ours(path: str, folder: Path) -> bool:
    """Whether a path may be written: the repaired file and its draft, precfix's own folder, the named results."""
    inside = os.path.relpath(os.path.join(folder / "project", path), folder / "project")
    return (
        inside in ("train.py", "before.bin", "manifest.json")  # the last two by their names in an opened folder
        or (inside.startswith(".precfix-") and inside.endswith(".tmp"))
        or inside == ".precfix"
        or inside.startswith(".precfix" + os.sep)
    )


def test_only_the_changed_file_the_journal_and_the_named_results_are_written(record: Record, folder: Path) -> None:
    results = {str(folder / "outside/report.json"), str(folder / "outside/fix.patch"), os.devnull}
    for run in record["runs"]:
        changing = run["arguments"][0] == "undo" or run["arguments"] == ["migrate", "."]
        for name, path, *_ in run["events"]:
            if name == "open for writing" or name.startswith(("os.", "shutil.", "tempfile.")):
                allowed = path in results or path.isdigit() or (changing and _is_ours(path, folder))
                assert allowed, (run["arguments"], name, path)
    written = sorted(path.name for path in (folder / "project").iterdir())
    assert ".precfix" in written
    assert {name for name in written if name.startswith(".")} == {
        ".precfix",
        ".git",
        ".envrc",
        ".pre-commit-config.yaml",
    }


def test_the_command_itself_started_in_the_project_runs_nothing_of_it(folder: Path) -> None:
    """The real command, in the project's folder, with Python's own import machinery."""
    command = Path(sys.executable).with_name("precfix")
    start = [str(command)] if command.exists() else [sys.executable, "-P", "-m", "precfix.codemod"]
    if sys.version_info < (3, 11) and not command.exists():
        pytest.skip("precfix is not installed as a command, and this Python has no -P")
    for words in (["audit", "."], ["migrate", ".", "--dry-run"]):
        done = subprocess.run([*start, *words], cwd=folder / "project", capture_output=True, text=True, check=False)
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stdout + done.stderr
    assert not (folder / "executed").exists()
    assert (folder / "project/train.py").read_text() == LOOP
    assert AFTER not in LOOP
