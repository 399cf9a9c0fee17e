"""Twice the code costs about twice the work: calls of functions are counted, never time."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest
from precfix.codemod.engine import check

from .fixture_cases import all_rules
from .rule_runs import TARGET, written

MOST = 2.5
"""How much more work twice the code may be; what compares each with each makes it four times as much."""
HEAD = "import torch\nimport torch.nn as nn\n\n"


def regions_in_one_function(count: int) -> dict[str, str]:
    blocks = "".join(
        f'    with torch.autocast("cuda", dtype=torch.float16):\n        y{index} = model(x)\n'
        for index in range(count)
    )
    return {"train.py": f"{HEAD}def run(model, x):\n{blocks}    y0.backward()\n"}


def functions_with_a_region(count: int) -> dict[str, str]:
    functions = (
        f'def run_{index}(model, x, dtype=torch.float16):\n    region = torch.autocast("cuda", dtype=dtype)\n'
        "    with region:\n        loss = model(x)\n    loss.backward()\n\n\n"
        for index in range(count)
    )
    return {"train.py": HEAD + "".join(functions)}


def one_long_file(count: int) -> dict[str, str]:
    return {"train.py": HEAD + "".join(STEP.replace("NUMBER", str(index)) for index in range(count))}


STEP = """
class NetNUMBER(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.lin = nn.Linear(dim, dim)
        self.scale = torch.ones(1)

    def forward(self, x, mask=None):
        h = self.lin(x).masked_fill(mask, -1e4) * self.scale
        return h / (h.sum() + 1e-8)


def train_NUMBER(model, loader, optimizer, dtype=torch.float16, args=None):
    scaler = torch.amp.GradScaler("cuda")
    for batch in loader:
        x = batch["x"].to(dtype)
        with torch.autocast("cuda", dtype=dtype):
            loss = model(x, batch["mask"]).float().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def main_NUMBER(args):
    model = NetNUMBER()
    train_NUMBER(model, [], torch.optim.Adam(model.parameters()), torch.float16, args)

"""


def many_files(count: int) -> dict[str, str]:
    return {f"part_{index}.py": HEAD + STEP.replace("NUMBER", str(index)) for index in range(count)}


SHAPES: dict[str, tuple[Callable[[int], dict[str, str]], int]] = {
    "regions in one function": (regions_in_one_function, 200),
    "functions with a region": (functions_with_a_region, 100),
    "one long file": (one_long_file, 40),
    "many files": (many_files, 40),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_code_is_about_twice_the_work(shape: str, tmp_path: Path) -> None:
    files, count = SHAPES[shape]
    work(tmp_path / "first", files(2))  # tables are read once
    once, twice = work(tmp_path / "once", files(count)), work(tmp_path / "twice", files(2 * count))
    assert twice / once < MOST, f"{once} calls, then {twice}"


def work(folder: Path, files: dict[str, str]) -> int:
    """How many calls, of Python's functions and of built-in ones, all rules make about ``files``."""
    project, calls = written(folder, files), 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        report = check(project, all_rules(), TARGET)
    finally:
        sys.setprofile(before)
    assert not report.failed_rules
    return calls
