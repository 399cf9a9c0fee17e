"""The hooks, the action and the documented jobs, run by those who would run them: pre-commit, bash, schema checkers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from .fixture_cases import FIXTURES, REPOSITORY
from .nightly import NIGHTLY
from .project_tree import write_tree

DOCS = (REPOSITORY / "docs" / "ci.md").read_text("utf-8")
ACTION = yaml.safe_load((REPOSITORY / "action.yml").read_text("utf-8"))
HOOKS = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text("utf-8"))
QUICKSTART = FIXTURES / "projects" / "quickstart" / "input"
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main")


def example(name: str) -> str:
    """The YAML block of docs/ci.md after the marker with this name."""
    found = re.search(rf"<!-- {name}: [^>]*-->\n\n```yaml\n(.*?)```", DOCS, re.DOTALL)
    assert found is not None
    return found[1]


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run([*GIT, *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def committed(folder: Path) -> Path:
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


def checked(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("name", "schema"),
    [("check", "vendor.github-workflows"), ("migrate", "vendor.github-workflows"), ("gitlab", "vendor.gitlab-ci")],
)
def test_documented_jobs_follow_the_schema(tmp_path: Path, name: str, schema: str) -> None:
    path = tmp_path / "job.yml"
    path.write_text(example(name), "utf-8")
    done = checked(path, schema)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_action_follows_the_schema_and_the_examples_use_its_inputs(tmp_path: Path) -> None:
    done = checked(REPOSITORY / "action.yml", "vendor.github-actions")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "action.yml").write_text("name: 1\nruns: {using: nothing}\n", "utf-8")
    assert checked(tmp_path / "action.yml", "vendor.github-actions").returncode == 1
    for name in ("check", "migrate"):
        steps = [step for job in yaml.safe_load(example(name))["jobs"].values() for step in job["steps"]]
        (ours,) = [step for step in steps if step["uses"].startswith("precfix/")]
        assert set(ours["with"]) <= set(ACTION["inputs"])


def test_no_input_is_pasted_into_a_script() -> None:
    """What stands in ``${{ }}`` is replaced before the shell reads it: an input there could run anything."""
    scripts = [step["run"] for step in ACTION["runs"]["steps"] if "run" in step]
    assert len(scripts) == 4
    assert [script for script in scripts if "${{" in script] == []


def test_no_module_of_the_pull_request_runs_in_place_of_one_of_python() -> None:
    """``python -m`` looks into the current folder first, and that is the checkout: it may hold a ``pip.py``."""
    scripts = " ".join(step["run"] for step in ACTION["runs"]["steps"] if "run" in step).split()
    options = [after for word, after in pairwise(scripts) if word.strip('"').rpartition("/")[2] == "python"]
    assert options == ["-I", "-I"]


class Action:
    """The shell steps of the action, run as a runner does, with the precfix of this Python."""

    def __init__(self, folder: Path, work: Path) -> None:
        self.work = work
        self.temp = folder / "temp"
        (self.temp / "precfix" / "bin").mkdir(parents=True)
        command = self.temp / "precfix" / "bin" / "precfix"
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m precfix.codemod "$@"\n', "utf-8")
        command.chmod(0o755)
        self.output, self.summary = folder / "output", folder / "summary"

    def step(self, name: str, **variables: str) -> subprocess.CompletedProcess[str]:
        script = next(step["run"] for step in ACTION["runs"]["steps"] if step.get("id", step.get("name")) == name)
        defaults = {"TARGET": ".", "ARGS": "", "CHANGED_ONLY": "false", "BASE": "", "FAIL": "true"}
        given = {
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_OUTPUT": str(self.output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        environment = {**os.environ, **defaults, **given, **variables}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)

    def outputs(self) -> dict[str, str]:
        lines = self.output.read_text("utf-8").splitlines() if self.output.exists() else []
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def action(tmp_path: Path) -> Action:
    if shutil.which("bash") is None:
        pytest.skip("needs bash")
    work = tmp_path / "work"
    shutil.copytree(QUICKSTART, work / "training")
    return Action(tmp_path, committed(work))


def test_the_action_checks(action: Action) -> None:
    done = action.step("run", COMMAND="check", TARGET="training")
    assert done.returncode == 0, done.stderr
    assert "::warning file=training/train.py,line=19," in done.stdout
    outputs = action.outputs()
    assert outputs["exit-code"] == "1"
    log = json.loads(Path(outputs["sarif"]).read_text("utf-8"))
    assert {result["ruleId"] for result in log["runs"][0]["results"]} == {"PF101", "PF502"}
    assert "grad-scaler-under-bf16" in action.summary.read_text("utf-8")
    assert action.step("Result", CODE=outputs["exit-code"]).returncode == 1


def test_the_action_leaves_a_patch_that_repairs(action: Action) -> None:
    done = action.step("run", COMMAND="migrate", TARGET="training", ARGS="--select\nPF101\n")
    assert done.returncode == 0, done.stderr
    patch = action.outputs()["patch"]
    assert git(action.work, "status", "--porcelain") == "", "migrate in a pull request writes nothing"
    assert action.step("Apply the patch for the suggestions", PATCH=patch).returncode == 0
    assert git(action.work, "status", "--porcelain") == "M training/train.py"
    action.output.unlink()
    assert action.step("run", COMMAND="migrate", TARGET="training", ARGS="--select\nPF101\n").returncode == 0
    assert "patch" not in action.outputs()
    assert action.outputs()["exit-code"] == "0"


def test_the_action_speaks_of_changed_lines_only(action: Action) -> None:
    base = git(action.work, "rev-parse", "HEAD")
    write_tree(action.work, {"training/notes.py": "x = 1\n"})
    committed_now = action.step("run", COMMAND="check", TARGET="training", CHANGED_ONLY="true", BASE=base)
    assert committed_now.returncode == 0, committed_now.stderr
    assert "::warning" not in committed_now.stdout
    assert action.outputs()["exit-code"] == "0"


@pytest.mark.parametrize(
    "variables",
    [
        {"COMMAND": "undo"},
        {"COMMAND": "check; touch marker"},
        {"COMMAND": "check", "TARGET": "$(touch marker)"},
        {"COMMAND": "check", "TARGET": "training", "ARGS": "; touch marker\n`touch marker`"},
        {"COMMAND": "check", "TARGET": "training", "CHANGED_ONLY": "true", "BASE": "$(touch marker)"},
    ],
)
def test_hostile_inputs_run_nothing(action: Action, variables: dict[str, str]) -> None:
    assert action.step("run", **variables).returncode == 2
    assert not (action.work / "marker").exists()


# --- pre-commit -------------------------------------------------------------------------------------------------------


def test_every_hook_has_an_entry_of_this_command() -> None:
    assert [hook["id"] for hook in HOOKS] == ["precfix-check", "precfix-migrate"]
    for hook in HOOKS:
        assert hook["entry"].split()[0] == "precfix"
        assert hook["pass_filenames"] is False, "a project is read as a whole"
    used = [hook["id"] for repo in yaml.safe_load(example("pre-commit"))["repos"] for hook in repo["hooks"]]
    assert used == [hook["id"] for hook in HOOKS]


def local_clone(folder: Path) -> tuple[Path, str]:
    """The files of this repository as they are now, in a repository of their own, and its commit."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"],
        cwd=REPOSITORY,
        capture_output=True,
        check=True,
    )
    names = [os.fsdecode(name) for name in listed.stdout.split(b"\0") if name]
    wanted = ("codemod/", "transforms/", "probes/")
    for name in names:
        source = REPOSITORY / name
        if source.is_file() and (name.startswith(wanted) or "/" not in name):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    committed(folder)
    return folder, git(folder, "rev-parse", "HEAD")


def dependencies_from_here() -> dict[str, str]:
    """pip builds and installs precfix alone, without an index: what it depends on comes from these tests' packages."""
    import libcst
    import setuptools

    places = dict.fromkeys(str(Path(str(module.__file__)).parents[1]) for module in (libcst, setuptools))
    pip = {"PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_NO_COMPILE": "1"}
    return {**pip, "PYTHONPATH": os.pathsep.join(places)}


@pytest.mark.skipif(not NIGHTLY, reason="builds a wheel and an environment for it: at night")
def test_pre_commit_runs_the_hooks_from_a_local_clone(tmp_path: Path) -> None:
    if not (REPOSITORY / ".git").exists():
        pytest.skip("this is no git repository, so there is nothing to clone")
    (tmp_path / "clone").mkdir()
    clone, revision = local_clone(tmp_path / "clone")
    project = tmp_path / "project"
    shutil.copytree(QUICKSTART, project)
    hooks = [{"id": hook["id"]} for hook in HOOKS]
    config = {"repos": [{"repo": str(clone), "rev": revision, "hooks": hooks}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config), "utf-8")
    committed(project)
    environment = {**os.environ, "PRE_COMMIT_HOME": str(tmp_path / "home"), **dependencies_from_here()}

    def run() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color=never"]
        return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)

    first = run()
    assert first.returncode == 1, first.stdout + first.stderr
    assert "PF101 grad-scaler-under-bf16" in first.stdout
    assert "files were modified by this hook" in first.stdout
    assert git(project, "diff", "--name-only").split() == ["ds_config.json", "train.py"]
    second = run()
    assert second.returncode == 0, second.stdout + second.stderr
    assert second.stdout.count("Passed") == 2
