"""16-bit copies that autocast keeps of weights, used after the weights have moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch import Tensor
from torch._ops import OpOverload

from .lines import Lines
from .places import Loss, LossPlace, SourceLine
from .storages import Storages, unseen
from .watching import NARROW, in_backward, operation

CASTS = ("_to_copy", "to")


@dataclass(slots=True)
class Copy:
    """What autocast made of a weight, and how often the weight had been written to by then."""

    weight: ref[Tensor]
    version: int


@dataclass
class Copies:
    """Looks whether a forward pass uses a copy that is older than its weight."""

    storages: Storages
    lines: Lines

    def __post_init__(self) -> None:
        self._copies: dict[int, Copy] = {}
        self._places: dict[SourceLine | None, LossPlace] = {}
        self.storages.on_sweep.append(self._forget)

    def before(self, func: OpOverload[..., Any], written: list[Tensor], given: list[Tensor]) -> None:
        """Compare what is used with the weight that it was made of."""
        if not self._copies or in_backward():
            return
        for tensor in given:
            copy = self._copies.get(self.storages.key(tensor)) if tensor.dtype in NARROW else None
            weight = copy.weight() if copy is not None else None
            changed = copy is not None and weight is not None and weight._version != copy.version
            if changed and weight is not None and self.storages.key(weight) != self.storages.key(tensor):
                self._found(tensor, weight)  # else the weight itself was cast: ``module.half()``

    def made(self, func: OpOverload[..., Any], given: list[Tensor], results: list[Tensor]) -> None:
        """Remember a cast of a weight inside a region."""
        result = results[0]
        key = self.storages.key(result)
        self._copies.pop(key, None)
        weight = given[0] if operation(func) in CASTS and given else None
        if weight is not None and weight.is_leaf and weight.requires_grad and result.dtype in NARROW:
            self._copies[key] = Copy(ref(weight), weight._version)

    def places(self) -> Iterator[LossPlace]:
        """One place per line."""
        yield from self._places.values()

    def _found(self, tensor: Tensor, weight: Tensor) -> None:
        site = self.lines.here()
        line = site[:2] if site is not None else None
        with unseen():
            old = torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
            now = weight.detach().to(tensor.dtype).flatten()
            share = float((old.sort().values != now.sort().values).float().mean()) if old.numel() == len(now) else 0.0
        dtype = str(tensor.dtype).removeprefix("torch.")
        detail = f"{share:.0%} of a weight are as they were before a step: the region keeps the copies it has cast"
        place = LossPlace(Loss.OLD_COPY, share, line=line, dtype=dtype, detail=detail)
        if line not in self._places or share > self._places[line].amount:
            self._places[line] = place

    def _forget(self, alive: Any) -> None:
        self._copies = {key: kept for key, kept in self._copies.items() if key in alive}
