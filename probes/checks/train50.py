"""Fifty steps of training in each regime: does it learn, and does it end where float32 ends?

``bf16-mixed`` and ``fp16-mixed`` keep float32 weights under autocast, the latter with a GradScaler; ``bf16-true`` turns
weights and inputs into bfloat16. A regime holds when the last loss is finite and below 0.7 times the first.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure
from .autocast_smoke import autocast

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.amp import GradScaler

STEPS = 50
REGIMES = ("fp32", "bf16-mixed", "bf16-true", "fp16-mixed")
LEARNT = 0.7


def steps(task: Task) -> Iterator[ProbeStep]:
    for regime in REGIMES:
        yield regime, lambda regime=regime: _train(task, regime)  # type: ignore[misc]


def learns(result: StepResult) -> bool:
    """Whether a regime trained."""
    first, last = result.number("first_loss"), result.number("last_loss")
    return first is not None and last is not None and last < LEARNT * first


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """Every regime learns."""
    failed = first_failure(results)
    if failed is not None:
        return failed
    stuck = [regime for regime in REGIMES if not learns(results[regime])]
    if stuck:
        return Judgment(False, f"{', '.join(stuck)} does not learn in {STEPS} steps where it should")
    ends = ", ".join(f"{regime} {results[regime].number('last_loss'):.4f}" for regime in REGIMES)
    return Judgment(True, f"every regime learns; loss after {STEPS} steps: {ends}")


def _train(task: Task, regime: str) -> Numbers:
    import torch

    width, batch = (64, 32) if task.kind == "cpu" else (256, 256)
    model, inputs, targets = _problem(width, batch)
    model, inputs, targets = model.to(task.device), inputs.to(task.device), targets.to(task.device)
    if regime == "bf16-true":
        model, inputs = model.to(torch.bfloat16), inputs.to(torch.bfloat16)
    dtype = regime.removesuffix("-mixed") if regime.endswith("-mixed") else "fp32"
    losses, skipped = _loop(model, inputs, targets, task, dtype)
    return {"first_loss": losses[0], "last_loss": losses[-1], "skipped_steps": skipped}


def _loop(model: nn.Module, inputs: Tensor, targets: Tensor, task: Task, dtype: str) -> tuple[list[float], int]:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    scaler = scaler_for(task.kind, enabled=dtype == "fp16")
    losses, skipped = [], 0
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=True)
        with autocast(task.device, dtype):
            outputs = model(inputs)
        loss = (outputs.float() - targets).square().mean()
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        skipped += scaler.get_scale() < before
        losses.append(float(loss.detach()))
    return losses, skipped


def scaler_for(kind: str, enabled: bool) -> GradScaler:
    """A GradScaler of a device type, in the spelling that this torch has."""
    import torch

    if hasattr(torch.amp, "GradScaler"):
        return torch.amp.GradScaler(kind, enabled=enabled)
    return torch.cuda.amp.GradScaler(enabled=enabled)  # before torch 2.3


def _problem(width: int, batch: int) -> tuple[nn.Module, Tensor, Tensor]:
    """A network, inputs, and what a network of the same shape with other weights makes of them."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, width), nn.LayerNorm(width), nn.GELU(), nn.Linear(width, 8))
    teacher = copy.deepcopy(model)
    for parameter in teacher.parameters():
        nn.init.normal_(parameter, std=0.3)
    inputs = torch.randn(batch, 16)
    with torch.no_grad():
        targets = teacher(inputs)
    return model, inputs, targets
