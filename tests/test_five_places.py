"""A project that states its precision in five places moves all of them together, and back again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from precfix.codemod import engine
from precfix.codemod.outcome import Report, Target
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import FIXTURES, files_of, write_files

INPUT = FIXTURES / "projects" / "five_places" / "input"
PLACES = {
    "scripts/train.sh": (b"--mixed_precision bf16 ", b"--mixed_precision bf16 \\\n    --learning_rate"),
    "conf/accelerate.yaml": (b"mixed_precision: bf16  #",),
    "conf/zero.json": (b'"bf16": {',),
    "train.py": (b'default="bf16"', b"dtype=torch.bfloat16"),
}


def move(root: Path, target: str) -> Report:
    project = Project.open([root]).with_frameworks(load_frameworks()).with_target(target)
    report = engine.migrate(project, load(), Target(target, "a test"))
    assert not report.failed_rules
    write_files(root, {change.path: change.after for change in report.changes})
    return report


@pytest.fixture
def root(tmp_path: Path) -> Path:
    shutil.copytree(INPUT, tmp_path / "project")
    return tmp_path / "project"


def test_the_places_are_what_this_test_says(root: Path) -> None:
    files = files_of(root)
    assert all(word in files[path] for path, words in PLACES.items() for word in words)


def test_fp16_and_back_gives_the_same_bytes(root: Path) -> None:
    before = files_of(root)
    there = move(root, "fp16-mixed")
    assert sorted(change.path for change in there.changes) == sorted(PLACES)
    assert there.remaining == ()
    half = files_of(root)
    assert not any(word in half[path] for path, words in PLACES.items() for word in words)
    assert b'default="fp16"' in half["train.py"]
    assert b"dtype=torch.float16" in half["train.py"]
    back = move(root, "bf16-mixed")
    assert back.remaining == ()
    assert files_of(root) == before


def test_fp32_switches_every_place_off(root: Path) -> None:
    report = move(root, "fp32")
    files = files_of(root)
    assert files["scripts/train.sh"].count(b"--mixed_precision no ") == 2
    assert b"mixed_precision: 'no'  # the cluster" in files["conf/accelerate.yaml"]
    assert b'"enabled": false' in files["conf/zero.json"]
    assert b'default="no"' in files["train.py"]
    assert b"enabled=False" in files["train.py"]
    assert report.remaining == ()
