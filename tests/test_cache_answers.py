"""An answer is told again exactly while nothing has changed; what is told is what a cold run says, byte for byte."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from precfix.codemod.cache import states
from precfix.codemod.source.discovery import EXCLUDED_DIRECTORIES
from precfix.codemod.source.documents import kind_of

from .cached_runs import TICK, CachedRuns, runs  # noqa: F401
from .project_tree import write_tree

LOOP = """import torch

def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
PROJECT = {
    "train.py": LOOP,
    "src/other.py": "import torch\n\nx = torch.cuda.amp.GradScaler()\n",
    "run.sh": "source env.sh\npython train.py --bf16\n",
    "config/ds.json": '{"bf16": {"enabled": true}, "fp16": {"enabled": true}}\n',
    "notes.md": "nothing\n",
}
PROFILE = sorted((Path(__file__).parent.parent / "fixtures" / "profiles").glob("*.json"))[0]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "project", PROJECT)


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["check", "-q"],
        ["check", "--statistics"],
        ["check", "--show-fixes", "-v"],
        ["check", "--output-format", "json"],
        ["check", "--output-format=sarif", "--exit-zero"],
        ["check", "--color", "always"],
        ["check", "--isolated", "--select", "PF101,PF301"],
        ["migrate", "--dry-run"],
        ["migrate", "--dry-run", "--to", "fp32", "--unsafe-fixes", "--output-format", "json"],
        ["audit"],
        ["audit", "--output-format", "markdown"],
    ],
    ids=" ".join,
)
def test_an_unchanged_run_is_told_again(runs: CachedRuns, project: Path, words: list[str]) -> None:  # noqa: F811
    asked = (*words, project)
    assert not runs.told_again(*asked)
    assert runs.told_again(*asked)
    assert runs.told_again(*asked)


def test_files_that_were_asked_for_are_written_again(runs: CachedRuns, project: Path, tmp_path: Path) -> None:  # noqa: F811
    output, report, patch = (tmp_path / name for name in ("out.json", "report.sarif", "fix.patch"))
    check = ("check", project, "--output-format", "json", "-o", output, "--report", f"sarif={report}")
    runs.warm(*check)
    expected = output.read_bytes(), report.read_bytes()
    output.write_text("other")
    report.unlink()
    assert runs.told_again(*check)
    assert (output.read_bytes(), report.read_bytes()) == expected
    output.unlink()
    output.mkdir()
    assert not runs.told_again(*check)
    runs.warm("migrate", project, "--patch", patch)
    expected_patch = patch.read_bytes()
    patch.unlink()
    assert runs.told_again("migrate", project, "--patch", patch)
    assert patch.read_bytes() == expected_patch != b""


def test_a_result_inside_the_project_settles(runs: CachedRuns, project: Path) -> None:  # noqa: F811
    asked = ("check", project, "--output-format", "json", "-o", project / "result.json")
    for _ in range(3):
        runs.warm(*asked)
    before = runs.worked
    runs.warm(*asked)
    assert runs.worked == before


@pytest.mark.parametrize("words", [["migrate"], ["check", "--add-ignore", "--allow-dirty"]], ids=" ".join)
def test_runs_that_write_are_made_each_time(runs: CachedRuns, project: Path, words: list[str]) -> None:  # noqa: F811
    runs.warm(*words, project)
    shutil.rmtree(project)
    write_tree(project, PROJECT)
    before = runs.worked
    runs.warm(*words, project)
    assert runs.worked > before


def test_a_baseline_is_written_each_time(runs: CachedRuns, project: Path, tmp_path: Path) -> None:  # noqa: F811
    asked = ("check", project, "--write-baseline", tmp_path / "known.json")
    runs.warm(*asked)
    before = runs.worked
    runs.warm(*asked)
    assert runs.worked > before


def test_without_the_cache_nothing_is_written(runs: CachedRuns, project: Path) -> None:  # noqa: F811
    runs.warm("check", project, "--no-cache")
    assert not runs.folder.exists()
    runs.warm("check", project)
    assert runs.folder.exists()
    before = runs.worked
    runs.warm("check", project, "--no-cache")
    assert runs.worked > before


# --- changes ----------------------------------------------------------------------------------------------------------


def edited(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def edited_behind_the_clock(path: Path) -> None:
    """Another text of the same size and with the same time of change."""
    before = path.stat()
    path.write_text(path.read_text().replace("bfloat16", "float16 "))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def linked(project: Path) -> None:
    (project / "train.py").rename(project.parent / "elsewhere.py")
    (project / "train.py").symlink_to(project.parent / "elsewhere.py")


CHANGES: dict[str, Callable[[Path], object]] = {
    "an edit": lambda root: edited(root / "train.py", LOOP.replace("bfloat16", "float16")),
    "an edit of the same size and time": lambda root: edited_behind_the_clock(root / "train.py"),
    "a new file": lambda root: edited(root / "src" / "new.py", LOOP),
    "a new folder": lambda root: edited(root / "more" / "new.py", LOOP),
    "a file less": lambda root: (root / "src" / "other.py").unlink(),
    "a folder less": lambda root: shutil.rmtree(root / "config"),
    "another name": lambda root: (root / "train.py").rename(root / "main.py"),
    "a link out of the project": linked,
    "a file that a script reads": lambda root: edited(root / "env.sh", "export ACCELERATE_MIXED_PRECISION=fp16\n"),
    "settings": lambda root: edited(root / "precfix.toml", 'ignore = ["PF101"]\n'),
    "settings of a folder": lambda root: edited(root / "src" / "precfix.toml", 'ignore = ["PF3"]\n'),
    "settings above": lambda root: edited(root.parent / "precfix.toml", 'ignore = ["PF101"]\n'),
    "rules for git": lambda root: edited(root / ".gitignore", "train.py\n"),
    "an environment": lambda root: edited(root / "src" / "pyvenv.cfg", ""),
    "a profile": lambda root: shutil.copy(PROFILE, root / "precfix-profile.json"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_run_after_a_change_is_made(runs: CachedRuns, project: Path, change: str) -> None:  # noqa: F811
    runs.warm("check", project)
    CHANGES[change](project)
    assert not runs.told_again("check", project), change
    assert runs.told_again("check", project)


@pytest.mark.parametrize("above", [True, False], ids=["a repository above", "one of its own"])
def test_ignore_rules_of_a_repository_count(runs: CachedRuns, project: Path, above: bool) -> None:  # noqa: F811
    top = project.parent if above else project
    runs.warm("check", project)
    for change in ("config", "info/exclude"):
        edited(top / ".git" / change, "train.py\n")
        assert not runs.told_again("check", project)
        assert runs.told_again("check", project)
    edited(top / ".git" / "info" / "exclude", "src/\n")
    assert not runs.told_again("check", project)


def touched(root: Path) -> None:
    os.utime(root / "train.py", ns=(1, 1))


def saved_by_renaming(root: Path) -> None:
    shutil.copy(root / "train.py", root / "train.py.tmp")
    (root / "train.py.tmp").replace(root / "train.py")


UNCHANGED: dict[str, Callable[[Path], object]] = {
    "another time": touched,
    "saved by renaming": saved_by_renaming,
    "results of training": lambda root: edited(root / "model.safetensors", "weights"),
    "compiled modules": lambda root: edited(root / "__pycache__" / "train.cpython-311.pyc", ""),
    "an editor's file": lambda root: edited(root / ".train.py.swp", ""),
}


@pytest.mark.parametrize("change", UNCHANGED)
def test_what_changes_nothing_is_passed_over(runs: CachedRuns, project: Path, change: str) -> None:  # noqa: F811
    runs.warm("check", project)
    UNCHANGED[change](project)
    assert runs.told_again("check", project), change


def test_a_link_that_is_not_followed_is_not_opened(
    runs: CachedRuns,  # noqa: F811
    project: Path,
    tmp_path: Path,
) -> None:
    (project / "out.py").symlink_to(tmp_path / "outside.py")
    runs.warm("check", "-v", project)
    edited(tmp_path / "outside.py", LOOP)
    assert not runs.told_again("check", "-v", project)
    edited(tmp_path / "outside.py", "other")
    assert runs.told_again("check", "-v", project)
    edited(project / "inside.py", LOOP)
    (project / "out.py").unlink()
    (project / "out.py").symlink_to(project / "inside.py")
    assert not runs.told_again("check", "-v", project)


def test_unread_names_are_never_read() -> None:
    assert {suffix for suffix in states.UNREAD_SUFFIXES if kind_of("name" + suffix) is not None} == set()
    assert {suffix for suffix in states.UNREAD_SUFFIXES if kind_of("readme" + suffix) is not None} == set()
    assert states.UNREAD_FOLDERS <= EXCLUDED_DIRECTORIES


def test_what_else_decides_on_the_answer(
    runs: CachedRuns,  # noqa: F811
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs.warm("check", project)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not runs.told_again("check", project)
    assert not runs.told_again("check", "-q", project)
    monkeypatch.chdir(tmp_path)
    assert not runs.told_again("check", project)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    assert not runs.told_again("check", project)


def test_a_file_that_changes_while_it_is_checked_is_not_remembered(
    runs: CachedRuns,  # noqa: F811
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from precfix.codemod import engine

    check = engine.check

    def editing(*arguments: object) -> object:
        report = check(*arguments)  # type: ignore[arg-type]
        edited(project / "train.py", LOOP.replace("bfloat16", "float16"))
        return report

    monkeypatch.setattr(engine, "check", editing)
    runs.warm("check", project)
    monkeypatch.setattr(engine, "check", check)
    assert not runs.told_again("check", project)


LOOKING = """
import json, sys
from pathlib import Path
looked, top = set(), sys.argv[1]
def note(event, arguments):
    if event in ("open", "os.scandir", "os.listdir") and (str(arguments[0]) + "/").startswith(top + "/"):
        looked.add(str(arguments[0]))
sys.addaudithook(note)
import atexit
atexit.register(lambda: print(json.dumps(sorted(looked)), file=sys.stderr))
sys.argv = ["precfix", "check", top + "/project", "-q"]
from precfix.codemod.__main__ import main
main()
"""


def test_all_that_a_run_opens_is_kept_with_its_answer(project: Path, tmp_path: Path) -> None:
    edited(project / ".gitignore", "*.log\n")
    edited(project / "src" / ".gitignore", "other.py\n")
    edited(project / ".git" / "info" / "exclude", "nothing\n")
    edited(project / "base.toml", 'ignore = ["PF102"]\n')
    edited(project / "precfix.toml", 'extend = "base.toml"\nprofile = "machine.json"\n')
    shutil.copy(PROFILE, project / "machine.json")
    edited(project / "env.sh", "export ACCELERATE_MIXED_PRECISION=fp16\n")
    cache = tmp_path.parent / f"{tmp_path.name}-cache"
    environment = {**os.environ, "PRECFIX_CACHE_DIR": str(cache)}
    del environment["PRECFIX_NO_CACHE"]
    time.sleep(TICK)
    done = subprocess.run(
        [sys.executable, "-c", LOOKING, str(tmp_path)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 1, done.stderr
    looked = set(json.loads(done.stderr.splitlines()[-1]))
    (kept,) = (cache / "answers").iterdir()
    seen = json.loads(kept.read_bytes().partition(b"\n")[2])[1][3]
    assert str(project / "machine.json") in looked
    assert looked - set(seen) == set()


# --- anything ---------------------------------------------------------------------------------------------------------

STEPS = {**CHANGES, **UNCHANGED, "nothing": lambda root: None}
WORDS = (["check"], ["check", "--output-format", "json"], ["migrate", "--dry-run"], ["audit"])


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=2, max_size=5), words=st.sampled_from(WORDS))
def test_warm_and_cold_runs_say_the_same(
    runs: CachedRuns,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[str],
    words: list[str],
) -> None:
    project = write_tree(tmp_path_factory.mktemp("any") / "project", PROJECT)
    runs.warm(*words, project)
    for step in steps:
        try:
            STEPS[step](project)
        except OSError:  # an earlier step took the file away
            continue
        runs.told_again(*words, project)
        assert runs.told_again(*words, project), steps
