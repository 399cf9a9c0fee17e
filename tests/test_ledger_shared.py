"""One class of settings for several programs: what a program does not read says nothing of it."""

from __future__ import annotations

from pathlib import Path

from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_audited_runs import read, said
from .test_moving import moved

FIELDS = """
from dataclasses import dataclass


@dataclass
class Settings:
    bf16: bool = True
    fp16: bool = False
    amp: bool = True
"""
LOADS = """
import torch
from transformers import AutoModelForCausalLM

from settings import Settings

config = Settings()
net = AutoModelForCausalLM.from_pretrained("m", torch_dtype=torch.{dtype} if config.{name} else torch.float32)
optimizer = torch.optim.AdamW(net.parameters())
net(torch.ones(1, 4)).loss.backward()
optimizer.step()
"""
REGION = """
import torch

from settings import Settings

config = Settings()
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.AdamW(net.parameters())
with torch.autocast("cuda", dtype=torch.bfloat16, enabled=config.amp):
    loss = net(torch.ones(1, 4).cuda()).sum()
loss.backward()
optimizer.step()
"""
PLAIN = """
import torch

from settings import Settings

config = Settings()
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(net.parameters())
net(torch.ones(1, 4)).sum().backward()
optimizer.step()
"""


def test_a_field_that_one_program_reads_decides_no_other(tmp_path: Path) -> None:
    files = {
        "settings.py": FIELDS,
        "wide.py": LOADS.format(dtype="bfloat16", name="bf16"),
        "old.py": LOADS.format(dtype="float16", name="fp16"),
        "region.py": REGION,
        "plain.py": PLAIN,
    }
    found = read(tmp_path, files)
    shown = said((*found.runs, *found.elsewhere))
    assert {name: shown[name] for name in ("wide.py", "region.py")} == {
        "wide.py": "bf16-true",
        "region.py": "bf16-mixed",
    }
    assert shown["old.py"] in ("fp32", "unknown")
    assert shown.get("plain.py", "unknown") == "unknown"


VALIDATES = """
import argparse

import torch
from accelerate import Accelerator


def log_validation(net, rows):
    with torch.autocast("cuda"):
        return net(rows).float()


parser = argparse.ArgumentParser()
parser.add_argument("--mixed_precision", default=None, choices=["no", "fp16", "bf16"])
accelerator = Accelerator(mixed_precision=parser.parse_args().mixed_precision)
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(net.parameters())
net, optimizer = accelerator.prepare(net, optimizer)
accelerator.backward(net(torch.ones(2, 4).cuda()).sum())
optimizer.step()
log_validation(net, torch.ones(2, 4).cuda())
"""


def test_a_region_that_validates_does_not_decide_what_the_training_step_computes_in(tmp_path: Path) -> None:
    files = {"train.py": VALIDATES, "go.sh": "accelerate launch train.py\n", "requirements.txt": "torch==2.7.1\n"}
    assert said(read(tmp_path / "read", files).runs) == {"accelerate launch train.py": "unknown"}
    report, runs = moved(tmp_path / "moved", all_rules(), files, "bf16-mixed")
    assert runs["go.sh"].state is not MoveState.MOVED
    assert not report.changes
    given = {**files, "go.sh": "accelerate launch train.py --mixed_precision fp16\n"}
    assert list(said(read(tmp_path / "given", given).runs).values()) == ["fp16-mixed"]
