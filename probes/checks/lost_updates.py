"""What 16 bits round away on this device: updates of weights, running sums, gradients that are accumulated.

An AdamW step over 20,000 weights of the usual size at four learning rates; 4,000 additions of 0.7; the gradients of 64
micro-batches. Nothing here is a failure of the device: rounding is what 16 bits do, and that they do it is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure
from ..tensors import DTYPES, dtype_named

if TYPE_CHECKING:
    from torch import Tensor

RATES = ("1e-3", "1e-4", "1e-5", "1e-6")
WEIGHTS = 20_000
SPREAD = 0.02
ADDITIONS = 4_000
TERM = 0.7
MICRO_BATCHES = 64


def steps(task: Task) -> Iterator[ProbeStep]:
    """One step for each dtype and learning rate, then the sums of each dtype."""
    for name in DTYPES:
        for rate in RATES:
            yield f"{name}/lr {rate}", lambda name=name, rate=rate: _moved(task.device, name, float(rate))  # type: ignore[misc]
        yield f"{name}/sums", lambda name=name: _summed(task.device, name)  # type: ignore[misc]


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """Float32 moves every weight and sums right; what the others lose is told."""
    failed = first_failure(results)
    if failed is not None:
        return failed
    exact = [results[f"fp32/lr {rate}"].number("moved") for rate in RATES[:3]]
    if any(value is None or value < 0.999 for value in exact):
        return Judgment(False, "a step in float32 leaves weights where they are")
    moved = [results[f"bf16/lr {rate}"].number("moved") or 0.0 for rate in RATES]
    said = ", ".join(f"{share:.0%} at lr {rate}" for rate, share in zip(RATES, moved, strict=True))
    sums, error = results["bf16/sums"].number("sum") or 0.0, results["bf16/sums"].number("gradient_error") or 0.0
    return Judgment(
        True,
        f"an AdamW step moves of bfloat16 weights {said} (of float32 weights all); {ADDITIONS:,} x {TERM} sums up to"
        f" {sums:,.0f} in bfloat16 (true {ADDITIONS * TERM:,.0f}); gradients of {MICRO_BATCHES} micro-batches"
        f" are off by {error:.1%}",
    )


def _moved(device: str, name: str, rate: float) -> Numbers:
    import torch

    weights = _normal(WEIGHTS, device, name, 0) * SPREAD
    parameter = torch.nn.Parameter(weights.clone())
    parameter.grad = _normal(WEIGHTS, device, name, 1).sign()
    torch.optim.AdamW([parameter], lr=rate, weight_decay=0.0, eps=1e-4).step()
    return {"moved": float((parameter.detach() != weights).double().mean())}


def _summed(device: str, name: str) -> Numbers:
    import torch

    total = torch.zeros((), device=device, dtype=dtype_named(name))
    term = torch.tensor(TERM, device=device, dtype=dtype_named(name))
    for _ in range(ADDITIONS):
        total += term
    return {"sum": float(total), "gradient_error": _gradient_error(device, name)}


def _gradient_error(device: str, name: str) -> float:
    import torch

    total = torch.zeros(1_000, device=device, dtype=dtype_named(name))
    truth = torch.zeros(1_000, dtype=torch.float64)
    for seed in range(MICRO_BATCHES):
        gradient = _normal(1_000, device, name, seed)
        total += gradient
        truth += gradient.cpu().double()
    return float(torch.linalg.vector_norm(total.cpu().double() - truth) / torch.linalg.vector_norm(truth))


def _normal(count: int, device: str, name: str, seed: int) -> Tensor:
    """Random numbers that are the same in every run."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, generator=generator).to(device=device, dtype=dtype_named(name))
