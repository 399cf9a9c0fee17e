"""What the checks share about tensors: dtypes by their short names, and waiting for a device."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPES = ("fp32", "bf16", "fp16")
UNIT_ROUNDOFF = {"fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}
"""Half the distance from 1 to the next number: the largest relative error of one rounding."""


def dtype_named(name: str) -> torch.dtype:
    """``bf16`` -> ``torch.bfloat16``."""
    import torch

    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]


def wait_for(device: str) -> None:
    """Return when the device has done what it was given; the CPU always has."""
    import torch

    kind = device.partition(":")[0]
    if kind != "cpu":
        getattr(torch, kind).synchronize()
