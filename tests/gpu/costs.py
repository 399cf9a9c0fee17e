"""What a recording costs on the device, and how much of their way 16-bit weights go there.

``python -m tests.gpu.costs time MODEL REGIME`` prints milliseconds per step of one model, alone or under a rehearsal;
``python -m tests.gpu.costs losses`` the losses that numerics.md and the rules PF801 to PF808 speak of.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from typing import Any

import torch
from torch import nn

D = "cuda"


def model_of(name: str) -> tuple[nn.Module, torch.Tensor]:
    if name.startswith("mlp"):
        width = int(name.removeprefix("mlp"))
        layers = [each for _ in range(4) for each in (nn.Linear(width, width), nn.ReLU())]
        return nn.Sequential(*layers), torch.randn(256, width)
    width = int(name.removeprefix("transformer"))
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2), torch.randn(16, 128, width)


def timed(name: str, regime: str, steps: int = 30) -> float:
    torch.manual_seed(0)
    model, x = model_of(name)
    model, x = model.to(D).train(), x.to(D)
    optimizer = torch.optim.AdamW(model.parameters())
    began = 0.0
    for step in range(steps + 10):
        if step == 10:
            torch.cuda.synchronize()
            began = time.perf_counter()
        region: Any = torch.autocast(D, dtype=torch.bfloat16) if regime == "bf16" else contextlib.nullcontext()
        with region:
            loss = model(x).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    return (time.perf_counter() - began) / steps * 1000


def losses() -> dict[str, Any]:
    return {"updates": _updates(), "average": _average(), "decay": _decay(), "angles": _angles(), "gradients": _sums()}


def _updates() -> dict[str, Any]:
    """AdamW: share of the weights that a step moves, and the way after 100 steps beside float32."""
    found = {}
    for options in ({"foreach": True}, {"fused": True}):
        for dtype in (torch.bfloat16, torch.float16):
            for lr in (1e-3, 1e-4, 3e-5, 1e-5, 1e-6):
                one, way = _walk(dtype, lr, **options)
                _, right = _walk(torch.float32, lr, **options)
                key = f"{next(iter(options))} {str(dtype).removeprefix('torch.')} {lr}"
                found[key] = {"moved by the first step": one, "way": float(way @ right / (right @ right))}
    return found


def _walk(dtype: Any, lr: float, **options: Any) -> tuple[float, torch.Tensor]:
    torch.manual_seed(0)
    start = (torch.randn(20000, device=D) * 0.02).to(dtype)
    weight = nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([weight], lr=lr, weight_decay=0.0, **options)
    drift = torch.randn(20000, device=D) * 0.01
    first = 0.0
    for step in range(100):
        weight.grad = (drift + torch.randn(20000, device=D) * 0.01).to(dtype)
        optimizer.step()
        if step == 0:
            first = float((weight != start).float().mean())
    return first, weight.detach().double() - start.double()


def _average() -> dict[str, Any]:
    found = {}
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        for decay in (0.9, 0.99, 0.999):
            torch.manual_seed(0)
            start = torch.randn(5000, device=D).to(dtype)
            goal = (start.double() * 1.1).to(dtype)
            shadow = start.clone()
            for _ in range(int(5 / (1 - decay))):
                shadow.mul_(decay).add_(goal, alpha=1 - decay)
            gap = (goal.double() - start.double()).abs().sum()
            closed = float(((shadow.double() - start.double()) * (goal.double() - start.double()).sign()).sum() / gap)
            found[f"{str(dtype).removeprefix('torch.')} {decay}"] = closed
    return found


def _decay() -> dict[str, float]:
    found = {}
    for dtype in (torch.bfloat16, torch.float32):
        for options in ({"foreach": True}, {"fused": True}):
            weight = nn.Parameter(torch.ones(1000, device=D, dtype=dtype))
            weight.grad = torch.zeros_like(weight)
            optimizer = torch.optim.AdamW([weight], lr=1e-4, weight_decay=0.01, **options)  # type: ignore[arg-type]
            for _ in range(1000):
                optimizer.step()
            key = f"{str(dtype).removeprefix('torch.')} {next(iter(options))}"
            found[key] = float(1 - weight.detach().double().mean())
    return found


def _angles() -> dict[str, Any]:
    found = {}
    for count in (512, 2048, 8192):
        frequencies = 1.0 / 10000 ** (torch.arange(0, 128, 2, device=D).double() / 128)
        right = torch.outer(torch.arange(count, device=D).double(), frequencies).cos()
        half = torch.outer(torch.arange(count, device=D).bfloat16(), frequencies.bfloat16()).cos().double()
        with torch.autocast(D, dtype=torch.bfloat16):
            positions, wide = torch.arange(count, device=D).float()[:, None], frequencies.float()[None]
            under = (positions @ wide).float().cos().double()
        for name, each in (("bf16", half), ("product under autocast", under)):
            found[f"{count} {name}"] = [float((each - right).abs().mean()), float((each - right).abs().max())]
    return found


def _sums() -> dict[str, float]:
    found = {}
    for dtype in (torch.bfloat16, torch.float16):
        for count in (8, 64, 512):
            torch.manual_seed(0)
            parts = torch.randn(count, 1000, device=D) * 0.01 + 0.01
            total = torch.zeros(1000, device=D, dtype=dtype)
            for part in parts:
                total += part.to(dtype)
            right = parts.double().sum(0)
            found[f"{str(dtype).removeprefix('torch.')} {count}"] = float(
                (total.double() - right).norm() / right.norm()
            )
    return found


if __name__ == "__main__":
    if sys.argv[1] == "time":
        print(f"TIMED {sys.argv[2]} {sys.argv[3]} {timed(*sys.argv[2:4]):.3f}")
    else:
        print(json.dumps(losses(), indent=1))
