"""A clip of scaled gradients that is there today holds no move back; one that a move brings about does."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import moved

LOOP = """
import torch

net = torch.nn.Linear(8, 8).cuda()
optimizer = torch.optim.AdamW(net.parameters())
scaler = torch.cuda.amp.GradScaler(SWITCH)
for inputs in torch.ones(4, 4, 8, device="cuda"):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = net(inputs).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


@pytest.mark.parametrize(
    ("switch", "target", "state"),
    [
        ("", "fp32", MoveState.MOVED),
        ("init_scale=1024.0", "fp32", MoveState.MOVED),
        ("enabled=False", "fp32", MoveState.MOVED),
        ("enabled=False", "fp16-mixed", MoveState.WITHDRAWN),
    ],
)
def test_a_clip_of_scaled_gradients_that_is_there_today_is_not_new(
    switch: str, target: str, state: MoveState, tmp_path: Path
) -> None:
    _, runs = moved(tmp_path, all_rules(), {"train.py": LOOP.replace("SWITCH", switch)}, target)
    assert [each.state for each in runs.values()] == [state], runs
    is_new = any("PF103 would be new" in place.message for place in runs["train.py"].why)
    assert is_new is (state is MoveState.WITHDRAWN)
