"""Gradients that are too small for float16, with and without loss scaling.

A four-layer network whose loss is multiplied by 1e-4: in float16 nearly every gradient becomes zero, with the loss
scaled by 65536 none does, and bfloat16, which has the exponent range of float32, needs no scaling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure
from .autocast_smoke import autocast

if TYPE_CHECKING:
    from torch import Tensor

SMALL = 1e-4
SCALE = 65536.0
CASES = {"bf16": ("bf16", 1.0), "fp16": ("fp16", 1.0), "fp16-scaled": ("fp16", SCALE)}
MAX_ZERO = 0.01
MAX_ERROR = 0.05


def steps(task: Task) -> Iterator[ProbeStep]:
    """One step for each way to train."""
    for case, (dtype, scale) in CASES.items():
        yield case, lambda dtype=dtype, scale=scale: _compare(task.device, dtype, scale)  # type: ignore[misc]


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """bfloat16 loses under 1 % of the gradients; scaled float16 is within 5 % of float32."""
    failed = first_failure(results)
    if failed is not None:
        return failed
    lost, error = results["bf16"].number("zero_share"), results["fp16-scaled"].number("relative_error")
    plain = results["fp16"].number("zero_share")
    if lost is None or lost > MAX_ZERO:
        return Judgment(False, "bfloat16 loses small gradients, which its exponent range should hold")
    if error is None or error > MAX_ERROR:
        return Judgment(False, "float16 gradients are wrong although the loss is scaled")
    share = f"{plain:.0%}" if plain is not None else "an unknown share"
    return Judgment(True, f"float16 without a GradScaler loses {share} of small gradients, with one none; bf16 none")


def _compare(device: str, dtype: str, scale: float) -> Numbers:
    import torch

    exact = _gradients(device, "fp32", 1.0)
    found = _gradients(device, dtype, scale)
    zero = (found == 0) & (exact != 0)
    return {
        "zero_share": float(zero.double().mean()),
        "relative_error": float(torch.linalg.vector_norm(found - exact) / torch.linalg.vector_norm(exact)),
    }


def _gradients(device: str, dtype: str, scale: float) -> Tensor:
    """The gradients of the four layers' weights, divided by the scale, in float64 on the CPU."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layers = [part for _ in range(4) for part in (nn.Linear(64, 64), nn.Tanh())]
    model = nn.Sequential(*layers).to(device)
    inputs = torch.randn(64, 64, device=device)
    with autocast(device, dtype):
        outputs = model(inputs)
    # The loss itself is float32, as autocast computes losses; what underflows is its gradient in 16 bits.
    (outputs.float().square().mean() * SMALL * scale).backward()
    found = [parameter.grad.cpu().double().flatten() for parameter in model.parameters() if parameter.grad is not None]
    return torch.cat(found) / scale
