"""``precfix rehearse``: what would raise on the device is found on a machine without it, and right programs pass."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from . import warm
from .rehearsal_runs import HAS_COLUMNS, records
from .warm_torch import python

pytest.importorskip("torch")

MASKED = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        h = torch.relu(self.a(x))
        mask = torch.ones(16, device=x.device{dtype})
        return self.b(h * mask)

net = Net().to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(50):
    x = torch.randn(4, 8, device="cuda", dtype=torch.bfloat16)
    loss = net(x).float().pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, flush=True)
"""


def rehearsed(folder: Path, source: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the record of a rehearsed ``train.py``."""
    (folder / "train.py").write_text(source, "utf-8")
    words = ["rehearse", "--output-format", "json", *options, "--", python(), "train.py"]
    done = warm.text(warm.precfix(*words, cwd=folder))
    assert done.returncode in (0, 1, 3), done.stderr
    return done.returncode, json.loads(done.stdout)


def test_a_mismatch_is_recorded_where_it_raises_with_the_births_of_its_operands(tmp_path: Path) -> None:
    code, record = rehearsed(tmp_path, MASKED.format(dtype=""), "--as", "a100")
    assert code == 1
    (failure,) = record["failures"]
    assert failure["error"] == "mat1 and mat2 must have the same dtype, but got Float and BFloat16"
    column = 16 if HAS_COLUMNS else 1
    assert (failure["filename"], failure["location"]) == ("train.py", {"row": 13, "column": column})
    assert [step["row"] for step in failure["operands"][0]["born"]] == [13, 12]
    assert (failure["count"], failure["module"], record["ended"]) == (3, "Net.b", "steps")


HOST = """
import numpy, torch
x = torch.ones(2, device="cuda")
x.cpu().numpy(), x.numpy(force=True), numpy.asarray(x.cpu()), torch.from_numpy(numpy.ones(2)).numpy()
{}
"""


IN_A_REGION = MASKED.format(dtype="").replace(
    "    loss = net(x)", "    with torch.autocast('cuda', torch.bfloat16):\n        loss = net(x)"
)
PROGRAMS = {
    "numpy": HOST.format("x.numpy()"),
    "asarray": HOST.format("numpy.asarray(x)"),
    "copied": HOST.format(""),
    "region": IN_A_REGION,
    "steps": MASKED.format(dtype=", dtype=x.dtype"),
}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """What is recorded of programs for which no command line need be started."""
    folder = tmp_path_factory.mktemp("programs")
    for name, source in PROGRAMS.items():
        (folder / f"{name}.py").write_text(source, "utf-8")
    found = records([(name, str(folder), f"{name}.py", "cuda", 2 if name == "steps" else 3) for name in PROGRAMS])
    return {name: answer["record"] for name, answer in found.items()}


def test_a_right_program_passes_and_is_stopped_after_its_steps(seen: Mapping[str, dict[str, Any]]) -> None:
    record = seen["steps"]
    assert (record["ended"], record["failures"], record["steps"]) == ("steps", [], 2)
    assert record["training"]["parameter_dtypes"] == {"bfloat16": 4}
    assert len(record["training"]["losses"]) == 2


@pytest.mark.parametrize("name", ["numpy", "asarray"])
def test_numpy_cannot_read_the_memory_of_the_device(name: str, seen: Mapping[str, dict[str, Any]]) -> None:
    (failure,) = seen[name]["failures"]
    assert failure["kind"] == "wrong_device"
    assert failure["error"].startswith("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu()")
    assert failure["location"]["row"] == 5


def test_numpy_reads_what_was_copied_to_the_host(seen: Mapping[str, dict[str, Any]]) -> None:
    assert seen["copied"]["failures"] == []


def test_the_regions_that_were_entered_are_told(seen: Mapping[str, dict[str, Any]]) -> None:
    assert seen["region"]["training"]["autocast"] == {"cuda bfloat16": 3}
