"""What the watchers found: places with a measured loss."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .storages import Line


class Loss(Enum):
    """The mechanisms by which 16-bit numbers lose something without an error; the value is its name in reports."""

    VANISHED_GRADIENT = "gradient underflows"
    BROKEN_GRADIENT = "gradient overflows"
    UPDATES = "updates rounded away"
    ACCUMULATION = "accumulation stalls"
    RUNNING_STATISTICS = "running statistics stall"
    LINE = "result is off"
    OUTPUT = "output is off"
    GRADIENT = "gradient is off"


NOISE = {
    Loss.UPDATES: 0.25,
    Loss.ACCUMULATION: 0.1,
    Loss.RUNNING_STATISTICS: 0.1,
    Loss.VANISHED_GRADIENT: 0.05,
    Loss.BROKEN_GRADIENT: 0.0,
    Loss.GRADIENT: 0.5,
    Loss.LINE: 0.1,
    Loss.OUTPUT: 0.25,
}
"""Up to here a measure is what rounding does to healthy bfloat16 training, as measured on repaired programs."""
ORDER = tuple(Loss)
"""A cause before what follows from it: weights that do not move say more than gradients that are off."""


@dataclass(frozen=True, slots=True)
class Place:
    """One loss: ``amount`` is a share or a relative error, by ``loss``; the rest says where."""

    loss: Loss
    amount: float
    name: str = ""
    """A parameter, a buffer or a module, by its path in the model."""
    line: Line | None = None
    since: Line | None = None
    """The line that first rounded to 16 bits what this is made of."""
    dtype: str = ""
    detail: str = ""
    others: int = 0
    """How many more names lose the same at this line."""

    @property
    def above_noise(self) -> bool:
        return self.amount > NOISE[self.loss]

    @property
    def rank(self) -> tuple[int, float, str]:
        """Sorts causes before consequences, then the larger amount first."""
        return ORDER.index(self.loss), -round(self.amount, 6), f"{self.line}{self.name}"
