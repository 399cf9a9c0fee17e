"""Lines whose results are off, and lines that feed themselves and stall."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from .lines import Lines
from .measures import astray, norms
from .places import Loss, LossPlace, SourceLine
from .storages import Round, Site, StorageOrigin, Storages

NARROW = frozenset({torch.float16, torch.bfloat16})
FEEDING = ("add", "sub", "rsub", "mul", "div", "lerp", "addcmul", "addcdiv", "where")
"""Operations by which a value goes into the next one of its kind."""
CANCELLING = ("add", "sub", "rsub")
"""Operations whose result may be small beside their operands: below ``CANCELLED`` of those it counts as zero."""
CANCELLED = 1e-3
REDUCING = {"sum": 0.5, "mean": -0.5}
"""A sum of n numbers of random sign is about n to this power as large as one; less than that is cancellation."""
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm")
"""Each element is a sum of products along the last dimension of the left factor."""
ROUNDS = 3
"""A site that has fed itself this often accumulates."""


def operation(func: OpOverload[..., Any]) -> str:
    """The name without namespace and overload: ``add``."""
    return func._schema.name.split("::")[-1]


def in_backward() -> bool:
    """Whether autograd runs the operation; its line would be that of ``backward()``."""
    return torch._C._current_autograd_node() is not None


@dataclass
class LineWatch:
    """Keeps, for each line, the largest error that came into being on it."""

    storages: Storages
    lines: Lines
    paused: bool = False

    def __post_init__(self) -> None:
        self._worst: dict[SourceLine, LossPlace] = {}
        self._stalled: dict[SourceLine, LossPlace] = {}

    def before(self, func: OpOverload[..., Any], written: list[Tensor], given: list[Tensor]) -> None:
        """What is written in place is as far off as it will be when it is read."""
        for tensor in written:
            entry = self.storages.entry(tensor)
            if entry is not None:
                entry.origin = StorageOrigin(narrowed=entry.origin.narrowed)

    def made(self, func: OpOverload[..., Any], given: list[Tensor], results: list[Tensor]) -> None:
        """Measure ``results`` and remember where they come from."""
        site = None if self.paused or in_backward() else self.lines.here()
        if site is None:
            return
        for result in results:
            self._look(func, site, result, given)

    def places(self) -> Iterator[LossPlace]:
        """One place per line and kind of loss."""
        yield from self._worst.values()
        yield from self._stalled.values()

    def _scale(
        self, func: OpOverload[..., Any], given: list[Tensor], origins: list[StorageOrigin], result: Tensor
    ) -> float:
        name = operation(func)
        if not given or name not in (*CANCELLING, *REDUCING, *PRODUCTS):
            return 0.0
        sizes = [origin.size for origin in origins]
        size = max(sizes)
        if name in PRODUCTS:
            return float(sizes[-1] * sizes[-2] * math.sqrt(given[-2].shape[-1])) if len(given) > 1 else 0.0
        if name in CANCELLING:
            return CANCELLED * size
        terms = max(1.0, given[0].numel() / max(1, result.numel()))
        return float(size * terms ** REDUCING[name])

    def _look(self, func: OpOverload[..., Any], site: Site, result: Tensor, given: list[Tensor]) -> None:
        line = site[:2]
        entry = self.storages.entry(result)
        if entry is None:
            return
        origins = [self._origin(tensor) for tensor in given]
        shadow = self.storages.shadow(result)
        measured = norms(result, shadow)
        error = measured.error(self._scale(func, given, origins, result))
        before = max((origin.error for origin in origins), default=0.0)
        here = max((origin.introduced for origin in origins if origin.line == line), default=0.0)
        introduced = min(error, max(0.0, error - before) + here)
        worst = max(origins, key=lambda origin: origin.error, default=StorageOrigin())
        since = worst.narrowed or (line if result.dtype in NARROW else None)
        rounds = self._rounds(func, site, result, origins)
        entry.origin = StorageOrigin(line, since, measured.error(), introduced, measured.size, rounds)
        detail = f"{operation(func)} {tuple(result.shape)}: off by {error:.2g}, its input by {before:.2g}"
        place = LossPlace(Loss.LINE, introduced, line=line, since=since, dtype=_short(result), detail=detail)
        if line not in self._worst or place.amount > self._worst[line].amount:
            self._worst[line] = place
        self._stall(site, result, rounds)

    def _origin(self, tensor: Tensor) -> StorageOrigin:
        """A weight is as far off as it is now: training may have carried it away from its shadow."""
        origin = self.storages.origin(tensor)
        if origin.line is not None:
            return origin
        measured = norms(tensor, self.storages.shadow(tensor))
        return replace(origin, error=measured.error(), size=measured.size)

    def _rounds(
        self, func: OpOverload[..., Any], site: Site, result: Tensor, origins: list[StorageOrigin]
    ) -> dict[Site, Round]:
        passed: dict[Site, Round] = {}
        for origin in origins:
            if origin.line == site[:2]:
                passed.update({key: round for key, round in origin.rounds.items() if round.start.shape == result.shape})
        if operation(func) in FEEDING:
            known = passed.get(site)
            passed[site] = Round(known.start, known.count + 1) if known else Round(self.storages.shadow(result), 1)
        return passed

    def _stall(self, site: Site, result: Tensor, rounds: dict[Site, Round]) -> None:
        known = rounds.get(site)
        if known is None or known.count < ROUNDS:
            return
        line = site[:2]
        lost = astray(result.detach() - known.start, self.storages.shadow(result) - known.start)
        detail = f"after {known.count} rounds, what they add is off by {lost:.0%}"
        self._stalled[line] = LossPlace(
            Loss.ACCUMULATION, lost, line=line, since=line, dtype=_short(result), detail=detail
        )


def _short(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
