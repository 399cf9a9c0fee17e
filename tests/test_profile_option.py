"""``--profile``, ``--probe`` and a profile saved in the project: which machine counts, and who says so."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from precfix.codemod.cli import machine as cli_machine
from precfix.codemod.cli.machine import machine_of, target_on
from precfix.codemod.model import UsageError
from precfix.codemod.profiles.profile import Profile
from precfix.codemod.source.project import Project

from .fixture_cases import FIXTURES
from .test_cli import precfix

TRAIN = """import torch


def train(model, batch):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return model(batch)
"""
T4, A100 = FIXTURES / "profiles" / "t4.json", FIXTURES / "profiles" / "a100.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(TRAIN)
    return folder


def codes(out: str) -> list[str]:
    return [item["code"] for item in json.loads(out)["diagnostics"]]


def test_a_given_profile_decides(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = precfix(capfd, monkeypatch, "check", project, "--profile", T4, "--output-format", "json")
    assert (done.code, codes(done.out)) == (1, ["PF601"])
    assert json.loads(done.out)["target"] == "fp16-mixed"
    assert "t4.json" in json.loads(done.out)["target_source"]
    assert "from published facts" in json.loads(done.out)["target_source"]
    done = precfix(capfd, monkeypatch, "check", project, "--profile", A100, "--output-format", "json")
    assert (done.code, codes(done.out)) == (0, [])
    assert precfix(capfd, monkeypatch, "check", project, "--select", "PF6").code == 0


def test_migrate_says_whose_target_it_is(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = precfix(capfd, monkeypatch, "migrate", project, "--dry-run", "--profile", T4, "-q")
    assert "target" not in done.err
    done = precfix(capfd, monkeypatch, "migrate", project, "--dry-run", "--profile", T4)
    assert "precfix: target fp16-mixed (recommended by the profile" in done.err
    assert "Tesla T4 (compute capability 7.5)" in done.err
    done = precfix(capfd, monkeypatch, "migrate", project, "--dry-run")
    assert "target" not in done.err


@pytest.mark.parametrize("name", ["precfix-profile.json", ".precfix/profile.json"])
def test_a_profile_in_the_project_is_found(
    project: Path, name: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / name).parent.mkdir(exist_ok=True)
    shutil.copy(T4, project / name)
    done = precfix(capfd, monkeypatch, "check", project, "--output-format", "json")
    assert codes(done.out) == ["PF601"]
    assert f"the profile {name} in the project" in json.loads(done.out)["target_source"]
    done = precfix(capfd, monkeypatch, "check", project, "--output-format", "json", "--profile", A100)
    assert codes(done.out) == [], "the flag comes first"


def test_the_visible_profile_comes_first(project: Path) -> None:
    (project / ".precfix").mkdir()
    shutil.copy(A100, project / ".precfix" / "profile.json")
    shutil.copy(T4, project / "precfix-profile.json")
    found = machine_of(Project.open([project]), None)
    assert found is not None
    assert found.profile.devices[0].name == "Tesla T4"


def test_a_link_out_of_the_project_is_no_profile(project: Path, tmp_path: Path) -> None:
    (project / "precfix-profile.json").symlink_to(T4)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.copy(T4, outside / "profile.json")
    (project / ".precfix").symlink_to(outside)
    assert machine_of(Project.open([project]), None) is None


def test_what_is_no_regular_file_is_no_profile(project: Path) -> None:
    os.mkfifo(project / "precfix-profile.json")
    (project / ".precfix" / "profile.json").mkdir(parents=True)
    assert machine_of(Project.open([project]), None) is None


def test_a_broken_profile_is_one_line(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "precfix-profile.json").write_text("{}")
    done = precfix(capfd, monkeypatch, "check", project)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert "precfix-profile.json" in done.err
    done = precfix(capfd, monkeypatch, "migrate", project, "--profile", T4, "--probe")
    assert (done.code, done.out) == (2, "")
    assert "cannot be combined" in done.err
    assert precfix(capfd, monkeypatch, "check", project, "--profile", "").code == 2
    assert precfix(capfd, monkeypatch, "check", project, "--profile", project / "none.json").code == 2


def test_a_profile_without_a_recommendation_leaves_the_target_to_the_project(
    project: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "precfix-profile.json").write_text('{"precfix_profile": 1}')
    done = precfix(capfd, monkeypatch, "check", project, "--output-format", "json")
    assert json.loads(done.out)["target"] == "bf16-mixed"
    assert target_on(cli_machine.KnownMachine(Profile(), "nothing")) is None


# --- --probe ----------------------------------------------------------------------------------------------------------


def python_that(folder: Path, does: str) -> str:
    """An executable in place of the interpreter: ``$6`` is the file to save to."""
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


def test_probe_runs_the_quick_probe_away_from_the_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    noted = tmp_path / "noted"
    monkeypatch.setattr(sys, "executable", python_that(tmp_path, f'echo "$@" > {noted}; pwd >> {noted}; cp {T4} "$6"'))
    found = machine_of(Project.open([project]), None, probe=True)
    assert found is not None
    assert found.source == "a probe of this machine"
    assert found.profile.devices[0].name == "Tesla T4"
    arguments, folder = noted.read_text().splitlines()
    assert arguments.startswith("-m precfix.codemod probe --quick --save ")
    assert not Path(folder).is_relative_to(project)
    assert not Path(folder).exists()


def test_a_probe_that_fails_says_why(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Project.open([project])
    monkeypatch.setattr(sys, "executable", python_that(tmp_path, "echo 'precfix: no torch here' >&2; exit 3"))
    with pytest.raises(UsageError, match=r"the probe failed: no torch here; run `precfix probe`"):
        machine_of(opened, None, probe=True)
    monkeypatch.setattr(sys, "executable", python_that(tmp_path, "kill -SEGV $$"))
    with pytest.raises(UsageError, match="the probe failed: exit code -11"):
        machine_of(opened, None, probe=True)
    monkeypatch.setattr(sys, "executable", python_that(tmp_path, "exec sleep 60"))
    monkeypatch.setattr(cli_machine, "PROBE_SECONDS", 0.2)
    with pytest.raises(UsageError, match="the probe takes over"):
        machine_of(opened, None, probe=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="cannot be started"):
        machine_of(opened, None, probe=True)


def test_reading_a_profile_imports_no_torch(project: Path) -> None:
    program = (
        "import sys\nfrom pathlib import Path\nfrom precfix.codemod.cli.commands import CheckRequest\n"
        "from precfix.codemod.cli.request import open_request\n"
        "opened = open_request(CheckRequest([Path(sys.argv[1])], profile=Path(sys.argv[2])))\n"
        "print(opened.target.regime, 'torch' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, project, T4], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["fp16-mixed", "False"]


def test_a_changed_project_stays_on_its_machine(project: Path) -> None:
    opened = Project.open([project], profile=Profile(note="here"))
    assert opened.with_texts({"train.py": "x = 1\n"}).profile == Profile(note="here")
    assert opened.with_texts({"train.py": "x = 1\n"}).with_profile(None).replaced_paths == ("train.py",)
