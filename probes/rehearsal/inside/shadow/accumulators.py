"""Tensors that are written again and again: running sums, averages of weights, statistics, accumulated gradients."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from .lines import Lines
from .measures import astray
from .places import Loss, LossPlace, SourceLine
from .storages import Storages
from .watching import operation

RESETS = frozenset({"zero_", "fill_", "normal_", "uniform_", "random_", "bernoulli_", "exponential_", "trunc_normal_"})
"""What writes anew and does not build on the old value."""
STATISTICS = ("batch_norm",)
MIN_ROUNDS = 4


@dataclass(slots=True)
class Sum:
    """A storage that is added to: its real and shadow values before the first time."""

    real: Tensor
    shadow: Tensor
    loss: Loss
    line: SourceLine | None
    dtype: str
    rounds: int = 0
    next: int = MIN_ROUNDS
    """When it is measured again: a local sum may be gone at the end."""
    rounded_copy: bool = False


@dataclass
class Accumulators:
    """Measures a storage each time that it has been written to an eighth more often, and at the end."""

    storages: Storages
    lines: Lines
    paused: bool = False
    names: dict[int, str] = field(default_factory=dict)
    """Storages by their key, as far as they are gradients or buffers of a module."""

    def __post_init__(self) -> None:
        self._sums: dict[int, Sum] = {}
        self._once: set[int] = set()
        """Storages that were written to a single time: most are, and need no copies."""
        self.storages.on_sweep.append(self._forget)
        self._places: dict[tuple[SourceLine | None, str], LossPlace] = {}

    def before(self, func: OpOverload[..., Any], written: list[Tensor], given: list[Tensor]) -> None:
        """Remember what each written tensor was, and measure what it has become so far."""
        if self.paused:
            return
        for tensor in written:
            self._write(func, tensor, given)

    def made(self, func: OpOverload[..., Any], given: list[Tensor], results: list[Tensor]) -> None:
        """Nothing: new tensors are not accumulators."""

    def places(self) -> Iterator[LossPlace]:
        """One place per line and name, as last measured."""
        for key, kept in self._sums.items():
            self._measure(key, kept)
        yield from self._places.values()

    def _write(self, func: OpOverload[..., Any], tensor: Tensor, given: list[Tensor]) -> None:
        key, name = self.storages.key(tensor), operation(func)
        known = self._sums.get(key)
        entry = self.storages.entry(tensor)
        if name in RESETS or entry is None:
            self._sums.pop(key, None)
            self._once.discard(key)
            return
        if key not in self._once:
            self._once.add(key)
            return
        if known is None or known.real.numel() != entry.flat.numel():
            known = self._sums[key] = self._start(func, tensor)
        known.rounds += 1
        known.rounded_copy |= name == "copy_" and any(other.itemsize > tensor.itemsize for other in given)
        if known.rounds >= known.next:
            known.next = known.rounds + max(MIN_ROUNDS, known.rounds // 8)
            self._measure(key, known)

    def _forget(self, alive: Collection[int]) -> None:
        self._once.intersection_update(alive)
        self._sums = {key: kept for key, kept in self._sums.items() if key in alive}

    def _start(self, func: OpOverload[..., Any], tensor: Tensor) -> Sum:
        site = self.lines.here()
        statistics = any(word in operation(func) for word in STATISTICS)
        loss = Loss.RUNNING_STATISTICS if statistics else Loss.ACCUMULATION
        real, shadow = self.storages.whole(tensor)
        return Sum(real, shadow, loss, site[:2] if site else None, str(tensor.dtype).removeprefix("torch."))

    def _measure(self, key: int, kept: Sum) -> None:
        now = self.storages.whole_of(key)
        if now is None or kept.rounded_copy or kept.rounds < MIN_ROUNDS or now[0].numel() != kept.real.numel():
            return
        lost = astray(now[0] - kept.real, now[1] - kept.shadow)
        name = self.names.get(key, "")
        detail = f"after {kept.rounds} rounds, what they add is off by {lost:.0%}"
        place = LossPlace(kept.loss, lost, name=name, line=kept.line, since=kept.line, dtype=kept.dtype, detail=detail)
        self._places[(kept.line, name)] = place
