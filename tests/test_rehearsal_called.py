"""A record says which module the failing line called, not which one inside of it raised."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from .rehearsal_runs import records

TRAIN = """import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to(torch.bfloat16)
wide = torch.randn(2, 4)
net(wide)
net[0](wide)
nn.functional.linear(wide, net[0].weight)
"""


def test_the_class_is_that_of_what_is_called(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    record = records([("a", str(tmp_path), "train.py", "cuda", 1)])["a"]["record"]
    found = [(each["location"]["row"], each["module_class"].rpartition(".")[2]) for each in record["failures"]]
    assert sorted(found) == [(6, "Sequential"), (7, "Linear"), (8, "")]
    first = min(record["failures"], key=lambda each: each["location"]["row"])
    assert [(each["role"], each["names"]) for each in first["operands"]][:2] == [("other", ["wide"]), ("parameter", [])]
    assert [each["location"]["row"] for each in first["stack"]] == [6]
