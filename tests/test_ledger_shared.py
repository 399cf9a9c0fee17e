"""One class of settings for several programs: what a program does not read says nothing of it."""

from __future__ import annotations

from pathlib import Path

from .test_audited_runs import read, said

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
