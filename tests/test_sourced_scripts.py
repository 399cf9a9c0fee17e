"""What a launch line is given by another file: a script that it reads, the second of two settings files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_ledger_sources import cells
from .test_moving import moved, paths_changed

REQUIRED = {"requirements.txt": "torch>=2.4\ntransformers>=4.45\nlightning>=2.2\n"}
BY_WORD = """
    import argparse

    import lightning

    parser = argparse.ArgumentParser()
    parser.add_argument("--precision", default="32-true")
    args = parser.parse_args()
    lightning.Trainer(precision=args.precision).fit(build())
"""
BY_SWITCH = """
    import argparse

    from transformers import Trainer, TrainingArguments

    parser = argparse.ArgumentParser()
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--bf16", action="store_true")
    args = parser.parse_args()
    Trainer(None, args=TrainingArguments("out", fp16=args.fp16, bf16=args.bf16)).train()
"""


@pytest.mark.parametrize(
    "line",
    [
        "source env.sh",
        "source $HERE/env.sh",
        ". ./env.sh",
        'source "$(dirname "$0")/env.sh"  # for all',
        "source ${HERE}/env.sh && cd .",
    ],
)
def test_a_variable_moves_in_the_script_that_gives_it_a_value(line: str, tmp_path: Path) -> None:
    run = f"{line}\npython train.py --precision $PRECISION\n"
    files = {"train.py": BY_WORD, "run.sh": run, "env.sh": "export PRECISION=16-mixed\nGPUS=4\n", **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert paths_changed(report) == {"env.sh"}
    assert b"PRECISION=bf16-mixed\nGPUS=4" in report.changes[0].after
    assert (runs["run.sh"].before, runs["run.sh"].after) == ("fp16-mixed", "bf16-mixed")


def test_a_variable_of_a_script_that_the_launch_does_not_read_needs_leave(tmp_path: Path) -> None:
    files = {"train.py": BY_WORD, "run.sh": "python train.py --precision $PRECISION\n", **REQUIRED}
    report, _ = moved(tmp_path, all_rules(), {**files, "env.sh": "export PRECISION=16-mixed\n"}, "bf16-mixed")
    assert not report.changes


@pytest.mark.parametrize(("arguments", "before"), [("--lr 1 --fp16", "fp16-mixed"), ("--lr 1", "fp32")])
def test_no_switch_is_added_beside_one_that_a_variable_holds(arguments: str, before: str, tmp_path: Path) -> None:
    files = {
        "train.py": BY_SWITCH,
        "run.sh": "source common.sh\npython train.py $ARGS\n",
        "common.sh": f'ARGS="{arguments}"\n',
        **REQUIRED,
    }
    report, runs = moved(tmp_path, all_rules(), files, "bf16-mixed", unsafe=True)
    assert runs["run.sh"].before == before
    assert bool(report.changes) == (before == "fp32")
    if before == "fp16-mixed":
        assert runs["run.sh"].state is MoveState.LEFT
        assert "common.sh:1" in " ".join(place.message for place in runs["run.sh"].why)


LISTS = (
    "ARGS=(--fp16 --lr 1)",
    "ARGS=(\n  --lr 1\n  '--fp16'\n)",
    "ARGS=()\nARGS+=(--lr 1 --fp16)",
    "ARGS='--lr 1\n--fp16'",
)


@pytest.mark.parametrize("body", LISTS)
@pytest.mark.parametrize("source", ["", "source common.sh\n", "source $HERE/common.sh\n"])
def test_words_that_another_file_holds_in_a_list_need_leave(source: str, body: str, tmp_path: Path) -> None:
    run = f'{source}python train.py "${{ARGS[@]}}"\n'
    files = {"train.py": BY_SWITCH, "run.sh": run, "common.sh": f"{body}\n", **REQUIRED}
    assert not moved(tmp_path, all_rules(), files, "bf16-mixed")[0].changes


def test_a_long_statement_that_names_no_file_is_passed_over_at_once(tmp_path: Path) -> None:
    start = time.process_time()
    run = f"source {'a' * 9000}!\nsource {'a/' * 9000}!\npython train.py --precision $PRECISION\n"
    files = {"train.py": BY_WORD, "run.sh": run, "env.sh": "PRECISION=16-mixed\n", **REQUIRED}
    assert not moved(tmp_path, all_rules(), files, "bf16-mixed")[0].changes
    assert time.process_time() - start < 10


@pytest.mark.parametrize(
    ("cell", "before"),
    [
        ("P = '16-mixed'", "fp16-mixed"),
        ("P = '16-mixed'\nP = pick()", "unknown"),
        ("for P in ('16-mixed', '32-true'):\n    print(P)", "unknown"),
        ("Q = '16-mixed'", "unknown"),
    ],
)
def test_a_variable_whose_value_nobody_knows_is_not_the_default(cell: str, before: str, tmp_path: Path) -> None:
    files = {"train.py": BY_WORD, "run.ipynb": cells(cell, "!python train.py --precision $P"), **REQUIRED}
    _, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert [run.before for run in runs.values()] == [before]


BY_CLI = "from lightning.pytorch.cli import LightningCLI\n\nLightningCLI()\n"


@pytest.mark.parametrize(
    ("base", "over", "before", "paths"),
    [
        ("16-mixed", "bf16-mixed", "bf16-mixed", {"base.yaml"}),
        ("bf16-mixed", "16-mixed", "fp16-mixed", {"extra.yaml"}),
        ("16-mixed", "16-mixed", "fp16-mixed", {"base.yaml", "extra.yaml"}),
        ("16-mixed", "32-true", "fp32", set()),
    ],
)
def test_the_file_that_is_named_last_says_it(
    base: str, over: str, before: str, paths: set[str], tmp_path: Path
) -> None:
    files = {
        "train.py": BY_CLI,
        "run.sh": "python train.py fit --config base.yaml --config extra.yaml\n",
        "base.yaml": f"trainer:\n  precision: {base}\n",
        "extra.yaml": f"trainer:\n  precision: {over}\n",
        **REQUIRED,
    }
    report, runs = moved(tmp_path, all_rules(), files, "bf16-mixed")
    assert runs["run.sh"].before == before
    assert paths_changed(report) == paths


BY_OVERRIDES = """
import sys
from omegaconf import OmegaConf
from transformers import Trainer, TrainingArguments

conf = OmegaConf.merge(OmegaConf.load(sys.argv[1]), OmegaConf.from_cli(sys.argv[2:]))
args = TrainingArguments(**conf)
Trainer(model=make(), args=args).train()
"""


@pytest.mark.parametrize(("train", "line"), [("python train.py $1 ${@:2}", "bash train.sh"), ("", "python train.py")])
def test_overrides_that_a_branch_puts_into_a_variable_are_told(tmp_path: Path, train: str, line: str) -> None:
    chosen = 'if python -c "import probe"; then\n  PREC="bf16=true fp16=false"\nelse\n  PREC="fp16=true"\nfi\n'
    loop = f"for seed in 1 2; do\n  {line} cfg.yaml seed=$seed $PREC\ndone\n"
    files = {"train.py": BY_OVERRIDES, "cfg.yaml": "output_dir: out\n", "train.sh": f"{train}\n", **REQUIRED}
    report, runs = moved(tmp_path, all_rules(), {**files, "all.sh": chosen + loop}, "bf16-mixed")
    assert not report.changes
    run = runs["train.sh" if train else "all.sh"]
    assert run.state is MoveState.LEFT
    assert [(place.path, place.span.row) for place in run.why] == [("all.sh", 4)]
    assert run.why[0].message.startswith("fp16 is true")
