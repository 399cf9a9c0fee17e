"""Runs in which a test of the machine picks the precision, passed on as switches or kept as a dtype."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_audited_runs import read, said
from .test_moving import moved

ASKED = """
import torch
from transformers import Trainer, TrainingArguments

from data import net, rows

{before}
args = TrainingArguments(output_dir="out", {arguments})
Trainer(net, args, train_dataset=rows()).train()
"""
KEPT = """
import torch


class Loop:
    def __init__(self):
        self.kind = {kind}
        self.net = torch.nn.Linear(4, 4).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def region(self):
        return torch.autocast("cuda", dtype=self.kind)

    def run(self):
        with self.region():
            loss = self.net(torch.ones(2, 4).cuda()).sum()
        loss.backward()
        self.optimizer.step()


if __name__ == "__main__":
    Loop().run()
"""
EITHER = "bf16-mixed; fp16-mixed where the machine has no bfloat16"
OR_NONE = "bf16-mixed; fp32 where the machine has no bfloat16"
DIRECT = "fp16=not torch.cuda.is_bf16_supported(), bf16=torch.cuda.is_bf16_supported()"
CAPABLE = "has_bf16 = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 8"
NAMED = "use_bf16 = bool(torch.cuda.is_available() and torch.cuda.is_bf16_supported())\nuse_fp16 = not use_bf16"


@pytest.mark.parametrize(
    ("before", "arguments", "expected"),
    [
        ("", DIRECT, EITHER),
        ("from unsloth import is_bfloat16_supported as able", "fp16=not able(), bf16=able()", "unknown"),
        (
            "from unsloth import is_bfloat16_supported",
            "fp16=not is_bfloat16_supported(), bf16=is_bfloat16_supported()",
            EITHER,
        ),
        (NAMED, "bf16=use_bf16, fp16=use_fp16", EITHER),
        (NAMED, "bf16=use_bf16", OR_NONE),
        (CAPABLE, "bf16=has_bf16, fp16=not has_bf16", EITHER),
        (CAPABLE.replace("8", "7"), "bf16=has_bf16, fp16=not has_bf16", "unknown"),
        (CAPABLE.replace("[0] >= 8", " >= (8, 0)"), "bf16=has_bf16, fp16=not has_bf16", EITHER),
        (CAPABLE.replace("[0] >= 8", " > (7, 5)"), "bf16=has_bf16, fp16=not has_bf16", EITHER),
        (CAPABLE.replace("[0] >= 8", " >= (8, 9)"), "bf16=has_bf16, fp16=not has_bf16", "unknown"),
        (CAPABLE.replace("[0] >= 8", " > (7, 0)"), "bf16=has_bf16, fp16=not has_bf16", "unknown"),
        (CAPABLE.replace("[0]", "[1]"), "bf16=has_bf16, fp16=not has_bf16", "unknown"),
        (CAPABLE, "bf16=has_bf16, fp16=torch.cuda.is_available() and not has_bf16", EITHER),
        ("from rows import wanted", "bf16=torch.cuda.is_bf16_supported() and wanted", "unknown"),
        ("", "bf16=True if torch.cuda.is_bf16_supported() else False", OR_NONE),
    ],
)
def test_a_switch_that_the_machine_decides_is_on_where_it_has_bfloat16(
    tmp_path: Path, before: str, arguments: str, expected: str
) -> None:
    files = {"train.py": ASKED.format(before=before, arguments=arguments)}
    assert said(read(tmp_path, files).runs) == {"train.py": expected}


@pytest.mark.parametrize(
    ("regime", "state"), [("fp16-mixed", MoveState.LEFT), ("fp32", MoveState.LEFT), ("bf16-mixed", MoveState.THERE)]
)
@pytest.mark.parametrize(
    "program",
    [
        ASKED.format(before=NAMED, arguments="bf16=use_bf16, fp16=use_fp16"),
        KEPT.format(kind="torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32"),
    ],
)
def test_a_choice_of_the_machine_is_said_to_be_left(
    tmp_path: Path, program: str, regime: str, state: MoveState
) -> None:
    report, runs = moved(tmp_path, all_rules(), {"train.py": program}, regime, unsafe=True)
    assert runs["train.py"].state is state
    assert not report.changes


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float32", OR_NONE),
        (
            "torch.bfloat16 if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else torch.float32",
            OR_NONE,
        ),
        ("torch.float32 if not torch.cuda.is_bf16_supported() else torch.bfloat16", OR_NONE),
        ("torch.bfloat16 if torch.cuda.device_count() > 1 else torch.float32", "unknown"),
    ],
)
def test_a_dtype_that_the_machine_decides_is_followed_through_self(tmp_path: Path, kind: str, expected: str) -> None:
    found = read(tmp_path, {"loop.py": KEPT.format(kind=kind)})
    assert [run.shown for run in (*found.runs, *found.elsewhere)] == [expected]


@pytest.mark.parametrize(
    ("kind", "state"),
    [("wanted()", MoveState.LEFT), ("torch.bfloat16", MoveState.THERE)],
)
def test_a_region_of_which_nobody_can_tell_the_dtype_is_named(tmp_path: Path, kind: str, state: MoveState) -> None:
    program = KEPT.format(kind=kind).replace("import torch", "import torch\nfrom other import wanted", 1)
    _, runs = moved(tmp_path, all_rules(), {"train.py": program}, "bf16-mixed")
    assert runs["train.py"].state is state


SPLATTED = """
import sys

import pytorch_lightning as pl
from mmengine import Config

from nets import Net

config = Config.fromfile(sys.argv[1])
pl.Trainer({arguments}**config["trainer"]).fit(Net())
"""


@pytest.mark.parametrize(
    ("arguments", "shown", "state"),
    [("", "unknown", MoveState.LEFT), ('precision="bf16-mixed", ', "bf16-mixed", MoveState.THERE)],
)
def test_a_trainer_that_is_passed_its_settings_unseen_is_named(
    tmp_path: Path, arguments: str, shown: str, state: MoveState
) -> None:
    files = {
        "train.py": SPLATTED.format(arguments=arguments),
        "conf/a.py": "trainer = dict(precision=16)\n",
        "go.sh": "python train.py conf/a.py\n",
        "requirements.txt": "pytorch-lightning>=2.1\ntorch>=2.4\n",
    }
    assert list(said(read(tmp_path / "read", files).runs).values()) == [shown]
    _, runs = moved(tmp_path / "moved", all_rules(), files, "bf16-mixed")
    assert runs["go.sh"].state is state
