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
class Harm:
    """Shares of the elements."""

    vanished: float
    """Zero in the program, and not small in the shadow."""
    broken: float
    """Infinite or NaN in the program, finite in the shadow."""


def harm(real: Tensor, shadow: Tensor) -> Harm:
    """What underflow and overflow have done to a gradient."""
    wide = _real(shadow)
    finite = torch.isfinite(wide)
    counts = finite & (wide.abs() > SMALL * root_mean_square(wide[finite]))
    values = _real(real.detach())
    vanished = int(((values == 0) & counts).sum()) / max(1, int(counts.sum()))
    broken = int((finite & ~torch.isfinite(values)).sum()) / max(1, int(finite.sum()))
    return Harm(vanished, broken)


@dataclass(frozen=True, slots=True)
class Norms:
    """Of a difference, of the shadow, and how many elements they have."""

    off: float
    base: float
    count: int

    def error(self, scale: float = 0.0) -> float:
        """Relative to the shadow, or to elements of the size ``scale`` where those are larger."""
        return min(self.off / max(self.base, scale * math.sqrt(self.count), FLOOR), 1e6)

    @property
    def size(self) -> float:
        """The root mean square of the shadow's elements."""
        return self.base / math.sqrt(self.count) if self.count else 0.0


def norms(real: Tensor, shadow: Tensor) -> Norms:
    """Over the elements that are finite in both."""
    wide = _real(shadow)
    off = _real(real.detach()).to(WIDE, copy=True).sub_(wide)
    both = float(off.norm()), float(wide.norm())
    if math.isfinite(both[0]) and math.isfinite(both[1]):
        return Norms(*both, off.numel())
    sound = torch.isfinite(off) & torch.isfinite(wide)
    return Norms(float(off[sound].norm()), float(wide[sound].norm()), off.numel())


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
