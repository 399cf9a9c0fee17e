"""PF702: gradients that change their dtype between micro-batches."""

from __future__ import annotations

from pathlib import Path

import pytest

from .rule_runs import findings, rule_of, written

RULE = rule_of("distributed.gradient_cast_between_accumulation_steps")
HEAD = """
import torch
from torch.nn.parallel import DistributedDataParallel as DDP

def train(model, optimizer, loader, n, args):
    model = DDP(model.bfloat16())
    for i, batch in enumerate(loader):
        model(batch).backward()
"""
CAST = """
        for p in model.parameters():
            {cast}
"""
STEP = """
        if (i + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def source(cast: str, head: str = HEAD, step: str = STEP) -> dict[str, str]:
    return {"train.py": head.strip("\n") + CAST.format(cast=cast).rstrip("\n") + step.rstrip("\n") + "\n"}


@pytest.mark.parametrize(
    "cast",
    [
        "p.grad.data = p.grad.data.float()",
        "p.grad.data = p.grad.float()",
        "p.grad.data = p.grad.data.to(torch.float32)",
        "p.grad.data = p.grad.data.to(dtype=torch.float, non_blocking=True)",
        "p.grad.data = p.grad.data.type(torch.float32)",
        "p.grad.data = p.grad.data.half()",
    ],
)
def test_spellings_of_the_cast(cast: str, tmp_path: Path) -> None:
    assert [item.fixes for item in findings(RULE, written(tmp_path, source(cast)))] == [()]


@pytest.mark.parametrize(
    "cast",
    [
        "p.grad.data = p.grad.data.to(p.device)",
        "p.grad.data = p.grad.data * 2",
        "p.grad.data = other.grad.data.float()",
        "p.main_grad = p.grad.float()",
        "p.grad.data = p.grad.data.to(args.dtype)",
        "g = p.grad.float()",
    ],
)
def test_other_assignments(cast: str, tmp_path: Path) -> None:
    assert not findings(RULE, written(tmp_path, source(cast)))


@pytest.mark.parametrize(
    "change",
    [
        ("DDP(model.bfloat16())", "model.bfloat16()"),
        ("model.bfloat16()", "model"),
        ("    for i, batch", "    model.grad_dtype = 1\n    for i, batch"),
    ],
)
def test_without_replicas_or_16_bit(change: tuple[str, str], tmp_path: Path) -> None:
    head = HEAD.replace(*change)
    found = findings(RULE, written(tmp_path, source("p.grad.data = p.grad.data.float()", head=head)))
    assert len(found) == (1 if "grad_dtype" in head else 0)


def test_deep_and_odd_trees_do_not_raise(tmp_path: Path) -> None:
    files = {
        "a.py": "x.grad = x.grad.float()\n",
        "b.py": "p.grad.data = p.grad.data.float(*a, **k)\nfor p in q:\n    p.backward()\n    p.grad = p.grad.to(*a)\n",
        "c.py": "def f(p):\n    p.grad.data = p.grad.data.half()\n    f(p)\n\n\n"
        "while True:\n    loss.backward()\n    f(1)\n",
        "d.py": "class A:\n    p.grad = p.grad.float()\n    (p.grad, q) = 1, 2\n"
        "    p[0].grad.data = p[0].grad.data.float()\n",
    }
    assert not findings(RULE, written(tmp_path, files))
