"""Why a run is left: the reasons name the place that decides, and say nothing that nobody wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.model import Place, Span
from precfix.codemod.outcome import MoveState, RunMove
from precfix.codemod.report.move_table import move_lines

from .fixture_cases import all_rules
from .test_moving import moved

LOOP = """
import argparse

import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision", default=None)
args = parser.parse_args()
accelerator = Accelerator({argument})
net = accelerator.prepare(torch.nn.Linear(2, 2))
accelerator.backward(net(torch.ones(2, 2)).sum())
"""
PASSED = LOOP.format(argument="mixed_precision=args.mixed_precision")
PLAIN = LOOP.format(argument="")


@pytest.mark.parametrize(
    ("script", "origin"),
    [
        ("P=$1\naccelerate launch --mixed_precision $P train.py\n", "run.sh:1"),
        ("accelerate launch --mixed_precision ${P:-fp16}x train.py\n", "run.sh:1"),
        ("accelerate launch --mixed_precision $P train.py\n", "elsewhere"),
    ],
)
def test_the_place_that_a_flag_takes_its_value_from_is_named(script: str, origin: str, tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), {"train.py": PLAIN, "run.sh": script})
    assert runs["run.sh"].state is MoveState.LEFT
    assert f"--mixed_precision comes from {origin}, make it bf16 there" in runs["run.sh"].why[0].message


def test_the_place_that_an_argument_takes_its_value_from_is_named(tmp_path: Path) -> None:
    code = """
        import lightning

        from settings import Training
        from nets import Net

        training = Training()
        print(training.precision * 2)
        lightning.Trainer(precision=training.precision).fit(Net())
    """
    settings = "from pydantic import BaseModel\n\n\nclass Training(BaseModel):\n    precision: int = 32\n"
    _, runs = moved(tmp_path, all_rules(), {"train.py": code, "settings.py": settings})
    assert any("precision comes from settings.py:5, make it" in place.message for place in runs["train.py"].why)


def test_an_option_that_nobody_passes_states_nothing(tmp_path: Path) -> None:
    report, runs = moved(tmp_path, all_rules(), {"train.py": PASSED})
    assert [(row.state, row.why) for row in runs.values()] == [(MoveState.UNSTATED, ())]
    assert not [item for item in report.remaining if item.code == "PF001"]


def test_a_launch_of_an_evaluation_trains_nothing(tmp_path: Path) -> None:
    line = "accelerate launch --mixed_precision fp16 {}.py\n"
    files = {"train.py": PLAIN, "evaluate.py": PLAIN, "run_eval.sh": line.format("evaluate")}
    _, runs = moved(tmp_path, all_rules(), {**files, "run.sh": line.format("train")})
    assert (runs["run_eval.sh"].state, runs["run_eval.sh"].why) == (MoveState.APART, ())
    assert runs["run.sh"].state is MoveState.MOVED


def test_what_nobody_declares_is_not_said_to_be_off(tmp_path: Path) -> None:
    code = """
        import argparse

        import torch

        parser = argparse.ArgumentParser()
        parser.add_argument("--use_amp", action="store_true")
        args = parser.parse_args()
        net = torch.nn.Linear(2, 2).cuda()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cuda")
        with torch.autocast("cuda", dtype=torch.float16, enabled=args.use_amp):
            loss = net(torch.ones(2, 2).cuda()).sum()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    """
    _, runs = moved(tmp_path, all_rules(), {"train.py": code, "run.sh": "python train.py\n"})
    why = runs["run.sh"].why[0]
    assert (why.path, why.message) == ("run.sh", "nothing switches mixed precision on for this run")


def test_a_scaler_without_a_region_has_a_name_and_a_reason(tmp_path: Path) -> None:
    scaling = """
        import torch


        class LossScaler:
            def __init__(self):
                self._scaler = torch.cuda.amp.GradScaler()

            def __call__(self, loss, optimizer):
                self._scaler.scale(loss).backward()
                self._scaler.step(optimizer)
                self._scaler.update()
    """
    code = """
        import torch

        from scaling import LossScaler

        net = torch.nn.Linear(2, 2).cuda()
        loss_scaler = LossScaler()
        loss_scaler(net(torch.ones(2, 2).cuda()).sum(), torch.optim.SGD(net.parameters(), lr=0.1))
    """
    _, runs = moved(tmp_path, all_rules(), {"train.py": code, "scaling.py": scaling})
    said = [place.message for place in runs["train.py"].why]
    assert said
    assert all(message.endswith("see what computes in float16") for message in said)
    assert not any(message.startswith(" ") for message in said)


def test_a_module_in_which_nothing_changes_is_no_row(tmp_path: Path) -> None:
    program = """
        import hydra
        import torch
        from accelerate import Accelerator


        @hydra.main(config_path="conf", config_name="config")
        def main(cfg):
            accelerator = Accelerator(mixed_precision=cfg.mixed_precision)
            accelerator.backward(accelerator.prepare(torch.nn.Linear(2, 2))(torch.ones(2, 2)).sum())


        main()
    """
    files = {"train.py": program, "conf/config.yaml": "mixed_precision: fp16\n", "test_submit.py": program}
    _, runs = moved(tmp_path, all_rules(), {**files, "requirements.txt": "torch>=2.4\naccelerate>=1.0\n"})
    assert {path: row.state for path, row in runs.items()} == {"train.py": MoveState.MOVED}


def test_reasons_that_runs_have_in_common_are_told_once() -> None:
    why, other = (Place("train.py", Span(3, 1, 3, 5), "it stays"),), (Place("b.py", Span(1, 1, 1, 5), "so does this"),)
    moves = [
        RunMove("train.py", "a.sh", row, "fp32", "fp32", MoveState.LEFT, reasons)
        for row, reasons in ((1, why), (2, other), (3, why))
    ]
    lines = [
        "".join(text for text, _ in line) for line in move_lines(moves, "bf16-mixed", "{}:{}".format, planned=True)
    ]
    assert [line.split()[0] for line in lines[2:-1]] == ["a.sh:1", "a.sh:3", "all", "train.py:3", "a.sh:2", "b.py:1"]


def test_runs_that_have_arrived_and_are_not_listed_are_counted() -> None:
    moves = [RunMove("run", "a.sh", row, "fp16-mixed", "bf16-mixed", MoveState.MOVED) for row in range(1, 24)]
    lines = [
        "".join(text for text, _ in line) for line in move_lines(moves, "bf16-mixed", "{}:{}".format, planned=True)
    ]
    assert [line.split()[0] for line in lines[2:22]] == [f"a.sh:{row}" for row in range(1, 21)]
    assert lines[22:] == ["  and 3 runs more that moved", "bf16-mixed: 23 runs: 23 moved."]


POLICIES = """
    import torch
    from torch.distributed.fsdp import MixedPrecision

    narrow = MixedPrecision(param_dtype=torch.float16, reduce_dtype=torch.float16)
    wide_range = MixedPrecision(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    whole = MixedPrecision(param_dtype=torch.float32, reduce_dtype=torch.float32)
"""
CHOOSING = """
    import argparse

    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    import policies

    def policy_for(kind):
        if kind == "fp16":
            return policies.narrow
        if kind == "bf16":
            return policies.wide_range
        return policies.whole

    parser = argparse.ArgumentParser()
    parser.add_argument("--numbers", choices=["fp16", "bf16", "fp32"], default="fp32")
    args = parser.parse_args()
    net = FullyShardedDataParallel(torch.nn.Linear(2, 2).cuda(), mixed_precision=policy_for(args.numbers))
    optimizer = torch.optim.SGD(net.parameters())
    net(torch.ones(2, 2).cuda()).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("given", "target", "written"),
    [
        ("--numbers fp16", "bf16-mixed", "--numbers bf16"),
        ("--numbers=fp32", "bf16-mixed", "--numbers=bf16"),
        ("--numbers fp16", "fp32", None),
        ("", "bf16-mixed", None),
    ],
)
def test_a_word_that_chooses_a_policy_moves_and_the_policies_stay(
    given: str, target: str, written: str | None, tmp_path: Path
) -> None:
    files = {"policies.py": POLICIES, "train.py": CHOOSING, "run.sh": f"torchrun train.py {given}\n"}
    report, runs = moved(tmp_path, all_rules(), files, target, unsafe=True)
    changed = {change.path: change.after.decode() for change in report.changes}
    assert changed == ({"run.sh": f"torchrun train.py {written}\n"} if written else {})
    assert "policies.py:5" not in [f"{place.path}:{place.span.row}" for place in runs["run.sh"].why]


def test_a_file_that_asks_for_no_precision_declares_none_off_and_one_that_only_predicts_is_no_training(
    tmp_path: Path,
) -> None:
    asked = "stage: sft\nfinetuning_type: lora\nmodel_name_or_path: gpt2\ntemplate: llama3\n"
    files = {
        "trained.yaml": f"{asked}do_train: true\n",
        "predicted.yaml": f"{asked}do_predict: true\npredict_with_generate: true\n",
        "run.sh": "llamafactory-cli train trained.yaml\nllamafactory-cli train predicted.yaml\n",
    }
    report, _ = moved(tmp_path, all_rules(), files)
    assert [(each.title.split()[-1], each.state) for each in report.moves if each.is_left] == [
        ("trained.yaml", MoveState.LEFT)
    ]
    assert [place.message for each in report.moves for place in each.why] == [
        "nothing given is fp32 (the default): nothing switches mixed precision on for this run"
    ]
