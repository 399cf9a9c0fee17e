"""Numbers that a function returns beside a tensor of a region stay numbers in bfloat16."""

from __future__ import annotations

from pathlib import Path

import pytest
from precfix.codemod.outcome import MoveState

from .fixture_cases import all_rules
from .test_moving import REQUIRED, moved

PROGRAM = """
import numpy as np
import torch


class Meter:
    def __init__(self):
        self.sum, self.count = 0, 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n


def measured(model, batch):
    output = model(batch)
    count = {count}
    return output.square().mean(), count


def loss_of(model, batch):
    with torch.autocast("cuda", dtype=torch.float16):
        return measured(model, batch)


def train(model, optimizer, scaler):
    meter = Meter()
    for _ in range(10):
        loss, count = loss_of(model, torch.randn(4, 8, device="cuda"))
        meter.update(loss.item(), count)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return meter.sum


if __name__ == "__main__":
    model = torch.nn.Linear(8, 2).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    log = [train(model, optimizer, torch.amp.GradScaler("cuda"))]
    print(np.asarray(log))
"""


@pytest.mark.parametrize(
    ("count", "state"),
    [
        ("batch.size(0)", MoveState.MOVED),
        ("len(batch)", MoveState.MOVED),
        ("output.detach().sum().cpu()", MoveState.LEFT),
        ("measured(model, batch)", MoveState.LEFT),
    ],
)
def test_a_number_beside_a_tensor_is_no_array_of_bfloat16(count: str, state: MoveState, tmp_path: Path) -> None:
    _, runs = moved(tmp_path, all_rules(), {"train.py": PROGRAM.format(count=count), **REQUIRED})
    assert runs["train.py"].state is state
