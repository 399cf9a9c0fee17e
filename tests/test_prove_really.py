"""``migrate --prove`` with real rehearsals: what is fixed runs, and says so with its losses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

TRAIN = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, bias):
        return self.fc(x) + torch.matmul(x, bias)


def main(dtype):
    torch.manual_seed(0)
    net = Net().to("cuda").to(getattr(torch, dtype))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    make = getattr(torch, "randn")
    for _ in range(2):
        loss = net(make(2, 4, device="cuda"), make(4, 4, device="cuda").to(net.fc.weight)).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


main("bfloat16")
"""


def test_before_it_raises_in_two_places_and_after_the_fixes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    words = [sys.executable, "-P"] if sys.version_info >= (3, 11) else [sys.executable]
    command = ["migrate", ".", "--allow-dirty", "--output-format", "json", "--prove", "--", sys.executable, "train.py"]
    done = subprocess.run(
        [*words, "-m", "precfix.codemod", *command], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    proof = report["proof"]
    assert [each["row"] for each in proof["before"]["raises"]] == [11, 11]
    assert (proof["after"]["raises"], proof["after"]["steps"], proof["taken_out"]) == ([], 2, [])
    assert proof["tolerance"] == {"dtype": "bfloat16", "losses_apart": []}
    assert len(proof["after"]["losses"]) == 2
    assert proof["after"]["parameter_dtypes"] == {"bfloat16": 2}
    changed = (tmp_path / "train.py").read_text()
    assert "self.fc(x.to(self.fc.weight.dtype)) + torch.matmul(x.to(bias.dtype), bias)" in changed
    assert all(each["fix"]["applicability"] == "safe" for each in report["diagnostics"])
