"""What is known of each tensor: the user's line that gave it its dtype, and the device that its program put it on."""

from __future__ import annotations

import weakref
from typing import Any

from .places import FramePlace

LONGEST = 8
"""Steps of a chain of births that are kept between a tensor and the line where its dtype came into being."""


class TracedBirth:
    """One step: at ``place`` an ``operation`` gave a tensor of this dtype. ``parent`` is the operand it has it from."""

    __slots__ = ("depth", "dtype", "is_bad", "on_device", "operation", "origin", "parent", "place")

    def __init__(
        self, place: FramePlace | None, operation: str, dtype: str, on_device: bool, parent: TracedBirth | None = None
    ) -> None:
        self.place, self.operation, self.dtype, self.on_device = place, operation, dtype, on_device
        self.origin: TracedBirth = parent.origin if parent is not None else self
        self.depth = 0
        self.is_bad = False
        self.parent: TracedBirth | None = None
        if parent is not None:
            near = parent if parent.depth < LONGEST else parent.origin
            self.parent, self.depth = near, near.depth + 1

    def chain(self) -> list[TracedBirth]:
        """From the tensor back to the line where its dtype came into being; each line once."""
        found: list[TracedBirth] = []
        step: TracedBirth | None = self
        while step is not None:
            if step.place is not None and (not found or found[-1].place != step.place):
                found.append(step)
            step = step.parent
        return found


class _Kept(weakref.ref):  # type: ignore[type-arg]
    __slots__ = ("birth", "key")
    birth: TracedBirth
    key: int


class Births:
    """The birth of every living tensor that was seen."""

    def __init__(self) -> None:
        self._kept: dict[int, _Kept] = {}

    def of(self, tensor: Any) -> TracedBirth | None:
        kept = self._kept.get(id(tensor))
        return kept.birth if kept is not None and kept() is tensor else None

    def note(self, tensor: Any, birth: TracedBirth) -> None:
        kept = _Kept(tensor, self._drop)
        kept.key, kept.birth = id(tensor), birth
        self._kept[id(tensor)] = kept

    def _drop(self, kept: Any) -> None:
        key: int = kept.key
        if self._kept.get(key) is kept:
            del self._kept[key]

    def forget(self) -> None:
        self._kept.clear()
