"""A move is held to the ledger of the new texts: what does not arrive is withdrawn, what is left is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from precfix.codemod.engine import Options
from precfix.codemod.model import Edit, Finding, ReplaceText, Rule
from precfix.codemod.moving.carrying import move
from precfix.codemod.outcome import MoveState, Report, RunMove, Target
from precfix.codemod.source.project import Project
from precfix.transforms.frameworks import load_frameworks

from .fixture_cases import all_rules
from .project_tree import open_tree, write_tree
from .test_cli import precfix

CODE = """
    import torch
    from transformers import AutoModelForCausalLM, HfArgumentParser, Trainer, TrainingArguments

    (args,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
    model = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.float16)
    Trainer(model.requires_grad_(False), args).train()
"""
FLAGS = "--fp16 True --output_dir out --per_device_train_batch_size 1 --learning_rate 1e-5\n"
TWO_RUNS = {
    "one.py": CODE,
    "one.sh": f"python one.py {FLAGS}",
    "two.py": CODE,
    "two.sh": f"python two.py {FLAGS}",
    "requirements.txt": "torch>=2.4\ntransformers>=4.40\n",
}
TARGET = Target("bf16-mixed", "a test")


def planted(changes: Callable[[Edit], Edit]) -> list[Rule]:
    """The rule of a move, whose edits of one.sh were tampered with."""
    (honest,) = (rule for rule in all_rules() if rule.code == "PF001")

    def check(project: Project) -> Iterator[Finding]:
        for finding in honest.check(project):
            fixes = [replace(fix, edits=tuple(map(changes, fix.edits))) for fix in finding.fixes]
            yield replace(finding, fixes=tuple(fixes))

    return [replace(honest, check=check)]


def moved(tmp_path: Path, rules: list[Rule], files: dict[str, str]) -> tuple[Report, dict[str, RunMove]]:
    project = open_tree(tmp_path, files).with_frameworks(load_frameworks()).with_target(TARGET.regime)
    report = move(project, rules, TARGET, Options(), all_rules())
    assert not report.failed_rules
    return report, {each.path: each for each in report.moves}


def paths_changed(report: Report) -> set[str]:
    return {change.path for change in report.changes}


def tampered(edit: Edit, text: str) -> Edit:
    is_step = edit.path == "one.sh" and isinstance(edit.operation, ReplaceText)
    return replace(edit, operation=replace(edit.operation, text=text)) if is_step else edit


def test_both_runs_move_where_every_step_arrives(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: edit), TWO_RUNS)
    assert paths_changed(report) == {"one.py", "one.sh", "two.py", "two.sh"}
    assert {each.state for each in runs.values()} == {MoveState.MOVED}
    assert {(each.before, each.after) for each in runs.values()} == {("fp16-mixed", "bf16-mixed")}


def test_a_run_with_a_step_that_does_not_arrive_is_withdrawn_and_the_other_one_is_not(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: tampered(edit, "fp")), TWO_RUNS)
    assert paths_changed(report) == {"two.py", "two.sh"}, "nothing of the first run is written, one.py neither"
    assert (runs["one.sh"].state, runs["one.sh"].after) == (MoveState.WITHDRAWN, "fp16-mixed")
    assert runs["two.sh"].state is MoveState.MOVED
    assert "with the edits the run would compute in fp16-mixed" in runs["one.sh"].why[0].message


def test_a_run_that_its_edits_would_bring_into_contradiction_is_withdrawn(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, planted(lambda edit: tampered(edit, "bf16 True --fp")), TWO_RUNS)
    assert paths_changed(report) == {"two.py", "two.sh"}
    assert runs["one.sh"].state is MoveState.WITHDRAWN
    assert any("PF402 would be new" in place.message for place in runs["one.sh"].why)


def test_runs_that_share_a_file_are_withdrawn_together(tmp_path: Path) -> None:
    files = {**TWO_RUNS, "two.sh": f"python one.py {FLAGS}"}
    report, runs = moved(tmp_path, planted(lambda edit: tampered(edit, "fp")), files)
    assert not {"one.py", "one.sh", "two.sh"} & paths_changed(report)
    assert {runs["one.sh"].state, runs["two.sh"].state} == {MoveState.WITHDRAWN}


def test_the_plan_says_what_migrate_then_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {**TWO_RUNS, "two.sh": f"python two.py --model m-gptq {FLAGS}"}
    write_tree(tmp_path, files)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    asked = ("--to", "bf16-mixed", "--output-format", "json")
    plan = precfix(capfd, monkeypatch, "audit", tmp_path, "--plan", *asked)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    done = precfix(capfd, monkeypatch, "migrate", tmp_path, *asked)
    planned = json.loads(plan.out)["moves"]
    assert (plan.code, done.code, planned) == (1, 1, json.loads(done.out)["moves"])
    states = {each["filename"]: (each["state"], each["before"], each["after"]) for each in planned}
    assert states == {
        "one.sh": ("moved", "fp16-mixed", "bf16-mixed"),
        "two.sh": ("left", "fp16-mixed", "fp16-mixed"),
    }
    assert "GPTQ" in next(each["why"][0]["message"] for each in planned if each["filename"] == "two.sh")


@pytest.mark.parametrize("words", [("--plan",), ("--to", "bf16-mixed"), ("--unsafe-fixes",)])
def test_a_plan_needs_a_target_and_a_target_a_plan(
    words: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"train.py": "import torch\n"})
    done = precfix(capfd, monkeypatch, "audit", tmp_path, *words)
    assert (done.code, done.err.count("\n")) == (2, 1)
