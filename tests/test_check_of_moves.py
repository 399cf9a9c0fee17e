"""What ``check`` calls safe with a target in the settings is what ``migrate`` applies without leave."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.engine import Options
from precfix.codemod.moving.carrying import move
from precfix.codemod.outcome import Target

from .fixture_cases import all_rules
from .project_tree import open_tree, write_tree
from .test_cli import precfix

TARGET = '[tool.precfix]\ntarget = "bf16-mixed"\n'
TRAIN = """
import argparse
import torch
p = argparse.ArgumentParser()
p.add_argument("--precision", default="fp16", choices=["fp16", "bf16", "fp32"])
a = p.parse_args()
dt = torch.float16 if a.precision == "fp16" else torch.bfloat16 if a.precision == "bf16" else torch.float32
{more}
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda", enabled=dt == torch.float16)
for _ in range(10):
    with torch.autocast("cuda", dtype=dt):
        loss = model(torch.randn(4, 8, device="cuda")).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(("more", "shown"), [("", "safe"), ('setattr(a, "fp16", True)', "unsafe")])
def test_check_calls_safe_what_a_move_applies(
    more: str, shown: str, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"train.py": TRAIN.format(more=more), "pyproject.toml": TARGET})
    checked = precfix(capfd, monkeypatch, "check", "--no-cache", tmp_path).out
    moved = precfix(capfd, monkeypatch, "migrate", "--dry-run", tmp_path).out
    assert f"fix [{shown}] move" in checked
    assert ("+p.add_argument" in moved) is (shown == "safe")


def test_a_move_says_which_run_it_judges(tmp_path: Path) -> None:
    steps: list[str] = []
    project = open_tree(tmp_path, {"train.py": TRAIN.format(more="")}).with_target("bf16-mixed")
    move(project, all_rules(), Target("bf16-mixed", "a test"), Options(progress=steps.append), all_rules())
    assert any(step.startswith("after the move: train.py") for step in steps)
