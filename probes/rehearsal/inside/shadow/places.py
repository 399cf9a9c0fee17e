"""What the watchers found: places with a measured loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

SourceLine = tuple[str, int]
"""A file, relative to the root, and a line of it."""
VERSION = 1
WORST = 10


class Loss(Enum):
    """The mechanisms by which 16-bit numbers lose something without an error; the value is its name in reports."""

    VANISHED_GRADIENT = "gradient underflows"
    BROKEN_GRADIENT = "gradient overflows"
    OLD_COPY = "old weights are used"
    UPDATES = "updates rounded away"
    ACCUMULATION = "accumulation stalls"
    RUNNING_STATISTICS = "running statistics stall"
    LINE = "result is off"
    OUTPUT = "output is off"
    GRADIENT = "gradient is off"


NOISE = {
    Loss.OLD_COPY: 0.05,
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
class LossPlace:
    """One loss: ``amount`` is a share or a relative error, by ``loss``; the rest says where."""

    loss: Loss
    amount: float
    name: str = ""
    """A parameter, a buffer or a module, by its path in the model."""
    line: SourceLine | None = None
    since: SourceLine | None = None
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


@dataclass(slots=True)
class LayerLoss:
    """The worst that was seen of one module over all steps; relative errors."""

    name: str
    kind: str
    dtype: str = ""
    input: float = 0.0
    output: float = 0.0
    gradient: float = 0.0


@dataclass(frozen=True, slots=True)
class Findings:
    """What was measured: the worst places first, then everything per module and parameter."""

    places: tuple[LossPlace, ...]
    layers: tuple[LayerLoss, ...]
    losses: tuple[tuple[float, float], ...]
    """The values that ``backward`` was called on, in the program and in the shadow."""
    steps: int
    restarted: tuple[tuple[str, int], ...]
    seconds: float

    @property
    def worst(self) -> tuple[LossPlace, ...]:
        """At most ten places above the noise of rounding, causes before consequences.

        Weights that lose the same at one line are one place.
        """
        groups: dict[object, list[LossPlace]] = {}
        for place in self.places:
            if place.above_noise:
                groups.setdefault((place.loss, place.line or place.name), []).append(place)
        told = (replace(group[0], others=group[0].others + len(group) - 1) for group in groups.values())
        return tuple(told)[:WORST]

    def as_json(self) -> dict[str, Any]:
        """Versioned; rows are 1-based, errors are relative, shares are between 0 and 1."""
        return {
            "version": VERSION,
            "steps": self.steps,
            "seconds": round(self.seconds, 2),
            "losses": [{"program": real, "shadow": wide} for real, wide in self.losses],
            "worst": [_place(place) for place in self.worst],
            "modules": [asdict(layer) for layer in self.layers],
            "restarted": [{"operation": name, "count": count} for name, count in self.restarted],
        }

    @classmethod
    def of_json(cls, data: Mapping[str, Any]) -> Findings:
        """What another process measured; its places are the worst ones."""
        return cls(
            tuple(_read(place) for place in data["worst"]),
            tuple(LayerLoss(**layer) for layer in data["modules"]),
            tuple((each["program"], each["shadow"]) for each in data["losses"]),
            data["steps"],
            tuple((each["operation"], each["count"]) for each in data["restarted"]),
            data["seconds"],
        )


def _place(place: LossPlace) -> dict[str, Any]:
    return {**asdict(place), "loss": place.loss.value, "line": _row(place.line), "since": _row(place.since)}


def _row(line: SourceLine | None) -> dict[str, Any] | None:
    return {"filename": line[0], "row": line[1]} if line else None


def _read(place: Mapping[str, Any]) -> LossPlace:
    lines = {name: _line(place[name]) for name in ("line", "since")}
    return LossPlace(**{**place, **lines, "loss": Loss(place["loss"])})


def _line(row: Mapping[str, Any] | None) -> SourceLine | None:
    return (str(row["filename"]), int(row["row"])) if row else None
