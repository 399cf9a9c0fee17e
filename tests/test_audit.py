"""``precfix audit``: runs, what wins in them, what is overridden, and its three formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from precfix.codemod.source.project import Project
from precfix.codemod.trainers.reading.auditing import ledger_of
from precfix.codemod.trainers.reading.runs import runs_of
from precfix.transforms.frameworks import load_frameworks

from .project_tree import write_tree
from .test_cli import precfix

FILES = {
    "scripts/run.sh": """
        # two places
        accelerate launch --config_file ../conf/acc.yaml --mixed_precision fp16 ../train.py \\
          --learning_rate 1e-4
        """,
    "conf/acc.yaml": """
        compute_environment: LOCAL_MACHINE
        distributed_type: MULTI_GPU
        mixed_precision: fp16
        num_processes: 2
        """,
    "train.py": """
        import torch
        from accelerate import Accelerator

        from lib.loop import step

        accelerator = Accelerator(mixed_precision="bf16")
        scaler = torch.amp.GradScaler("cuda", enabled=False)
        """,
    "lib/__init__.py": "",
    "lib/loop.py": """
        import torch


        def step(model, batch):
            with torch.autocast("cuda", dtype=torch.bfloat16):
                return model.half()(batch)
        """,
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project.open([write_tree(tmp_path, FILES)]).with_frameworks(load_frameworks())


def test_a_launch_line_brings_its_file_its_script_and_what_wins(project: Project) -> None:
    runs = [run for run in runs_of(project) if run.command is not None]
    assert len(runs) == 1
    members = [(member.rank, member.scope.path, member.regime) for member in runs[0].members]
    assert members == [
        (6, "train.py", "bf16-mixed"),
        (3, "scripts/run.sh", "fp16-mixed"),
        (1, "conf/acc.yaml", "fp16-mixed"),
    ]
    winner = runs[0].winner
    assert winner is not None
    assert winner.scope.path == "train.py"
    assert [(weaker.scope.path, by.scope.path) for weaker, by in runs[0].overridden()] == [
        ("scripts/run.sh", "train.py"),
        ("conf/acc.yaml", "train.py"),
    ]


def test_every_declaration_is_in_the_ledger(project: Project) -> None:
    said = {(item.path, item.role, item.value) for item in ledger_of(project).declarations}
    assert {
        ("conf/acc.yaml", "compute", "fp16"),
        ("scripts/run.sh", "compute", "fp16"),
        ("train.py", "compute", "bf16"),
        ("train.py", "scaler", "off"),
        ("lib/loop.py", "compute", "bfloat16"),
    } <= said


def test_text(project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = precfix(capfd, monkeypatch, "audit", project.root)
    assert done.code == 0
    assert "runs bf16-mixed" in done.out
    assert "overridden by train.py:6" in done.out
    assert "PF503 conf/acc.yaml:3" in done.out
    assert all(line == line.rstrip() for line in done.out.splitlines())


def test_json(project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = precfix(capfd, monkeypatch, "audit", project.root, "--output-format", "json")
    told = json.loads(done.out)
    run = told["runs"][0]
    assert (run["filename"], run["row"], run["regime"], run["effective"]["compute"]) == (
        "scripts/run.sh",
        2,
        "bf16-mixed",
        "bfloat16",
    )
    first = told["declarations"][run["entries"][0]["declaration"]]
    assert (first["filename"], first["location"]["row"], first["value"]) == ("train.py", 6, "bf16")
    assert [entry["status"] for entry in run["entries"]][:3] == ["wins", "overridden", "overridden"]


def test_markdown(project: Project, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    done = precfix(capfd, monkeypatch, "audit", project.root, "--output-format", "markdown")
    assert "| compute | bf16 | train.py:6 | mixed\\_precision (accelerate) | wins |" in done.out
    assert "## Contradictions" in done.out


def test_a_project_that_says_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"a.py": "print(1)\n"})
    done = precfix(capfd, monkeypatch, "audit", tmp_path)
    assert (done.code, done.out.splitlines()[0]) == (0, "0 declarations in 0 files, 0 contradictions.")


def test_explain_knows_the_ids_of_contradictions(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = precfix(capfd, monkeypatch, "explain", "st-value-fp32")
    assert done.code == 0
    assert done.out.startswith("# st-value-fp32 (PF505)")
    assert "`set gradient_precision=unmodified from bf16, fp16`" in done.out
    assert "bghira/SimpleTuner@" in done.out


def test_a_command_of_a_notebook_is_read_with_the_lines_that_continue_it(tmp_path: Path) -> None:
    lines = ["!python t.py \\\n", "    --per_device_train_batch_size 1 \\\n", "    --bf16 \\\n", "    --output_dir out"]
    cell = {"cell_type": "code", "metadata": {}, "source": lines, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook))
    files = {"t.py": "from transformers import HfArgumentParser, TrainingArguments\n"}
    project = Project.open([write_tree(tmp_path, files)]).with_frameworks(load_frameworks())
    told = [(item.key, item.value, item.span.row) for item in ledger_of(project).declarations]
    assert ("--bf16", "true", 3) in told
