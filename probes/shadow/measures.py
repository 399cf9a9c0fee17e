"""How far the program's numbers are from their shadows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .storages import WIDE

FLOOR = 1e-30
SMALL = 1e-3
"""Elements this much below the root mean square may vanish without harm."""


@dataclass(frozen=True, slots=True)
class Distance:
    """``error`` is the norm of the difference over the norm of the shadow; the others are shares of the elements."""

    error: float
    vanished: float
    """Zero in the program, and not small in the shadow."""
    broken: float
    """Infinite or NaN in the program, finite in the shadow."""


def distance(real: Tensor, shadow: Tensor, scale: float = 0.0) -> Distance:
    """Compare elementwise; ``scale`` is a root mean square below which the shadow counts as noise itself."""
    if not real.numel():
        return Distance(0.0, 0.0, 0.0)
    values, wide = _real(real.detach()).to(WIDE), _real(shadow)
    finite = torch.isfinite(wide)
    sound = finite & torch.isfinite(values)
    count = max(1, int(finite.sum()))
    off = torch.where(sound, values - wide, 0.0)
    base = torch.where(sound, wide, 0.0)
    least = scale * math.sqrt(values.numel())
    error = float(off.norm()) / max(float(base.norm()), least, FLOOR)
    counts = finite & (wide.abs() > SMALL * root_mean_square(base))
    vanished = int(((values == 0) & counts).sum()) / max(1, int(counts.sum()))
    broken = int((finite & ~torch.isfinite(values)).sum()) / count
    return Distance(min(error, 1e6), vanished, broken)


def _real(tensor: Tensor) -> Tensor:
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def progress(real: Tensor, shadow: Tensor) -> float:
    """How much of the shadow's way the program has gone: 1 for all, 0 where it stayed or went another way.

    Both are displacements from where each started.
    """
    wide = shadow.to(WIDE)
    length = float((wide * wide).sum())
    return float((real.to(WIDE) * wide).sum()) / length if length else 1.0


def astray(real: Tensor, shadow: Tensor) -> float:
    """How far the program's displacement is from the shadow's, relative to that: 1 where it stayed at its start."""
    wide = shadow.to(WIDE)
    length = float(wide.norm())
    return float((real.to(WIDE) - wide).norm()) / length if length else 0.0


def root_mean_square(tensor: Tensor) -> float:
    """0 for a tensor without elements."""
    return float(tensor.norm()) / math.sqrt(tensor.numel()) if tensor.numel() else 0.0
