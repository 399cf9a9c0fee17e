"""A small network under autocast, forward and backward: convolution, normalization, linear, attention, loss.

In float32, bfloat16 and float16. It holds when nothing raises and loss and gradients are finite. The float16 loss is
scaled by hand, as a GradScaler would do it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from ..step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure
from ..tensors import DTYPES, dtype_named

if TYPE_CHECKING:
    from torch import Tensor, nn

SCALE = 1024.0


def steps(task: Task) -> Iterator[ProbeStep]:
    for name in DTYPES:
        yield name, lambda name=name: _smoke(task.device, name)  # type: ignore[misc]


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """Every dtype ran and gave finite numbers."""
    failed = first_failure(results)
    if failed is not None:
        return failed
    bad = [name for name, result in results.items() if not (result.flag("finite") and result.flag("gradients_finite"))]
    if bad:
        return Judgment(False, f"the network gives NaN or infinity in {', '.join(bad)}")
    return Judgment(True, "convolution, norms, linear, attention and loss run forward and backward under autocast")


def autocast(device: str, name: str) -> AbstractContextManager[object]:
    """The region for a dtype; none for fp32."""
    import torch

    kind = device.partition(":")[0]
    return nullcontext() if name == "fp32" else torch.autocast(kind, dtype=dtype_named(name))


def _smoke(device: str, name: str) -> Numbers:
    import torch

    torch.manual_seed(0)
    model, images = _model().to(device), torch.randn(2, 3, 12, 12, device=device)
    labels = torch.tensor([1, 3], device=device)
    with autocast(device, name):
        logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
    scale = SCALE if name == "fp16" else 1.0
    torch.autograd.backward(loss * scale)
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    return {
        "loss": float(loss.detach()),
        "finite": bool(torch.isfinite(loss.detach()).item()),
        "gradients_finite": all(bool(torch.isfinite(each).all().item()) for each in gradients),
        "parameters_without_gradient": sum(parameter.grad is None for parameter in model.parameters()),
        "output_dtype": str(logits.dtype).removeprefix("torch."),
    }


def _model() -> nn.Module:
    import torch
    from torch import nn

    class Network(nn.Module):
        """Images to five classes."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU())
            self.down = nn.Sequential(nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.GroupNorm(4, 16), nn.SiLU())
            self.norm = nn.LayerNorm(16)
            self.qkv = nn.Linear(16, 48)
            self.head = nn.Linear(16, 5)

        def forward(self, images: Tensor) -> Tensor:
            tokens = self.down(self.stem(images)).flatten(2).transpose(1, 2)
            batch, length, width = tokens.shape
            qkv = self.qkv(self.norm(tokens)).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4)
            mixed = torch.nn.functional.scaled_dot_product_attention(qkv[0], qkv[1], qkv[2])
            pooled = (tokens + mixed.transpose(1, 2).reshape(batch, length, width)).mean(1)
            logits: Tensor = self.head(pooled)
            return logits

    return Network()
