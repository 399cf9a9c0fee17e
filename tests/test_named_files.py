"""Files that git ignores but a launch script of the project reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.source.project import Project

from .project_tree import write_tree


def paths_of(root: Path, files: dict[str, str]) -> tuple[str, ...]:
    return Project.open([write_tree(root, {".git/HEAD": "", ".gitignore": "*.env\n*.yaml\n", **files})]).paths


def test_an_ignored_file_is_read_when_a_script_sources_it(tmp_path: Path) -> None:
    files = {"config/config.env": "A=1\n", "config/other.env": "A=1\n", "train.sh": "source config/config.env\n"}
    assert paths_of(tmp_path, files) == ("config/config.env", "train.sh")


@pytest.mark.parametrize(
    "line",
    [
        '[ -f "config.env" ] && source config.env',
        ". ./config.env",
        'if true; then source "config.env"; fi',
        "    source 'config.env' # mine",
    ],
)
def test_every_usual_spelling_counts(tmp_path: Path, line: str) -> None:
    assert "config.env" in paths_of(tmp_path, {"config.env": "A=1\n", "run.sh": line + "\n"})


@pytest.mark.parametrize(
    "line",
    ["# source config.env", "source $HOME/config.env", "echo source config.env", "cat config.env", "source ../x.env"],
)
def test_other_mentions_do_not_count(tmp_path: Path, line: str) -> None:
    assert "config.env" not in paths_of(tmp_path / "project", {"config.env": "A=1\n", "run.sh": line + "\n"})


def test_a_path_is_also_relative_to_its_script(tmp_path: Path) -> None:
    assert "scripts/my.env" in paths_of(tmp_path, {"scripts/my.env": "A=1\n", "scripts/run.sh": "source my.env\n"})


def test_nothing_outside_the_project_is_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"outside.env": "A=1\n"})
    project = write_tree(
        tmp_path / "project", {".git/HEAD": "", ".gitignore": "*.env\n", "run.sh": "source link.env\n"}
    )
    (project / "link.env").symlink_to(tmp_path / "outside.env")
    assert Project.open([project]).paths == ("run.sh",)


def test_excluded_and_ungiven_files_stay_out(tmp_path: Path) -> None:
    files = {"a/train.sh": ". a/x/own.env\n. ./other.env\n. a/left.env\n. .git/hook.sh\n", "a/x/own.env": "A=1\n"}
    write_tree(tmp_path, {**files, "other.env": "A=1\n", "a/left.env": "A=1\n", ".git/hook.sh": "", "b.py": ""})
    (tmp_path / ".gitignore").write_text("*.env\n")
    given = [tmp_path / "a", tmp_path / "b.py"]
    assert Project.open(given).paths == ("a/left.env", "a/train.sh", "a/x/own.env", "b.py")
    assert Project.open(given, excludes=["a/x", "left.env"]).paths == ("a/train.sh", "b.py")
    assert Project.open([tmp_path / "a/train.sh"]).paths == ("train.sh",)


@pytest.mark.parametrize(
    "line",
    [
        "accelerate launch train.py --config configs/mine.yaml",
        "python train.py --config_path=configs/mine.yaml --lr 1",
        "deepspeed train.py --deepspeed configs/mine.yaml",
        "export CONFIG_PATH=configs/mine.yaml",
        "CONFIG='configs/mine.yaml' python train.py",
    ],
)
def test_a_config_that_a_launch_script_names_is_read(tmp_path: Path, line: str) -> None:
    assert "configs/mine.yaml" in paths_of(tmp_path, {"configs/mine.yaml": "a: 1\n", "run.sh": line + "\n"})


@pytest.mark.parametrize(
    "line", ["# --config configs/mine.yaml", "rm configs/mine.yaml", "python x.py --output configs/mine.yaml"]
)
def test_a_config_that_is_only_mentioned_is_not(tmp_path: Path, line: str) -> None:
    assert "configs/mine.yaml" not in paths_of(tmp_path, {"configs/mine.yaml": "a: 1\n", "run.sh": line + "\n"})


def test_of_an_ignored_folder_it_is_said_that_a_file_of_it_is_read(tmp_path: Path) -> None:
    files = {"config/config.env": "A=1\n", "logs/a.json": "{}", "train.sh": "source config/config.env\n"}
    project = Project.open([write_tree(tmp_path, {".git/HEAD": "", ".gitignore": "config/\nlogs/\n", **files})])
    assert {each.path: each.reason for each in project.left_out} == {
        "config/": "named by .gitignore, except files that git tracks or the project names",
        "logs/": "named by .gitignore",
    }
