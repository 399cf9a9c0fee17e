"""A float64 copy beside each storage of the program.

Shadows belong to storages, not to tensors, so that views, slices and in-place operations need no care of their own:
the shadow of a tensor is the same window (sizes, strides, offset) of the shadow of its storage.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import _disable_current_modes

from .places import SourceLine

WIDE = torch.float64
"""Autocast leaves float64 alone, so the shadow computes in it under any regime."""
SWEEP_EVERY = 1 << 26
"""Bytes of shadows made between two searches for those whose storage is gone."""
ENTRY = 1 << 12
"""What an entry counts beside its numbers, so that many small ones are searched too."""


Site = tuple[str, int, int]
"""A line and the instruction in its code object: two additions of one line are two sites."""


@dataclass(frozen=True, slots=True)
class Round:
    """A site that feeds itself, as in ``total = total + loss``: its first result, and how often it has run since."""

    start: Tensor
    count: int


@dataclass(frozen=True, slots=True)
class StorageOrigin:
    """Where the values of a storage come from.

    ``line`` wrote them, ``narrowed`` first rounded to 16 bits what they are made of, ``error`` is how far they were
    from their shadow, ``introduced`` how much of it that line has added, ``size`` their root mean square, and
    ``rounds`` are the sites of that line that they have passed.
    """

    line: SourceLine | None = None
    narrowed: SourceLine | None = None
    error: float = 0.0
    introduced: float = 0.0
    size: float = 0.0
    rounds: Mapping[Site, Round] = field(default_factory=dict)


NOWHERE = StorageOrigin()


@dataclass(slots=True)
class Shadowed:
    """The shadow of one storage: a flat tensor with an element for each real number in it."""

    storage: StorageWeakRef
    flat: Tensor
    real: torch.dtype
    """The dtype of one real number in the storage."""
    origin: StorageOrigin = NOWHERE

    @property
    def gone(self) -> bool:
        """Whether the program has let go of the storage."""
        return bool(self.storage.expired())  # type: ignore[no-untyped-call]


@contextmanager
def unseen() -> Iterator[None]:
    """What is computed within is ours: neither the shadow nor a recorder of the program looks at it."""
    with _disable_current_modes(), torch._C.DisableTorchFunction(), torch.no_grad():
        yield


def is_followed(value: object) -> bool:
    """Whether ``value`` is a dense tensor of real or complex floating numbers."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_quantized:
        return False
    return value.is_floating_point() or value.is_complex()


def _real(tensor: Tensor) -> torch.dtype:
    return tensor.dtype.to_real() if tensor.is_complex() else tensor.dtype


def _wide_copy(storage: torch.UntypedStorage, real: torch.dtype) -> Tensor:
    whole = torch.empty(0, dtype=real, device=storage.device)
    whole.set_(storage)
    return whole.to(WIDE, copy=True)


def _window(flat: Tensor, tensor: Tensor) -> Tensor:
    if tensor.is_complex():
        flat = torch.view_as_complex(flat.view(-1, 2))
    return flat.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())


class Storages:
    """The shadows of all storages that are alive."""

    def __init__(self) -> None:
        self._kept: dict[int, Shadowed] = {}
        self._unswept = 0
        self.on_sweep: list[Callable[[Collection[int]], None]] = []
        """Told the keys of the storages that are alive."""

    def key(self, tensor: Tensor) -> int:
        """What two tensors share that show the same memory."""
        return int(tensor.untyped_storage()._cdata)

    def entry(self, tensor: Tensor) -> Shadowed | None:
        """The shadow of the storage, where one is kept and fits the dtype that ``tensor`` sees in it."""
        kept = self._kept.get(self.key(tensor))
        if kept is None or kept.gone or kept.real != _real(tensor):
            return None
        return kept if kept.flat.numel() * kept.real.itemsize == tensor.untyped_storage().nbytes() else None

    def shadow(self, tensor: Tensor) -> Tensor:
        """The float64 values of ``tensor``; what nobody has computed starts from the values that it has."""
        kept = self.entry(tensor) or self._add(tensor, _wide_copy(tensor.untyped_storage(), _real(tensor)))
        return _window(kept.flat, tensor)

    def put(self, tensor: Tensor, value: Tensor) -> Shadowed:
        """Keep ``value`` as the shadow of ``tensor``, which fills a storage of its own."""
        elements = tensor.untyped_storage().nbytes() // _real(tensor).itemsize
        kept = self._add(tensor, torch.zeros(elements, dtype=WIDE, device=tensor.device))
        _window(kept.flat, tensor).copy_(value)
        return kept

    def restart(self, tensor: Tensor) -> None:
        """Let the shadow go on from the values that ``tensor`` has: nobody could compute others."""
        self.shadow(tensor).copy_(tensor)

    def origin(self, tensor: Tensor) -> StorageOrigin:
        """Where the values come from; nowhere for what the program did not compute."""
        kept = self.entry(tensor)
        return kept.origin if kept is not None else NOWHERE

    def forget(self, tensor: Tensor) -> None:
        """Drop the shadow: the storage was exchanged or resized."""
        self._kept.pop(self.key(tensor), None)

    def whole(self, tensor: Tensor) -> tuple[Tensor, Tensor]:
        """Copies of all that its storage holds, as it is and in the shadow; both flat and wide."""
        self.shadow(tensor)
        return _wide_copy(tensor.untyped_storage(), _real(tensor)), self._kept[self.key(tensor)].flat.clone()

    def whole_of(self, key: int) -> tuple[Tensor, Tensor] | None:
        """The same for a storage by its key, while it is alive."""
        kept = self._kept.get(key)
        if kept is None or kept.gone:
            return None
        storage = torch.UntypedStorage._new_with_weak_ptr(kept.storage.cdata)
        return None if storage is None else (_wide_copy(storage, kept.real), kept.flat)

    def _sweep(self) -> None:
        self._unswept = 0
        self._kept = {key: kept for key, kept in self._kept.items() if not kept.gone}
        for told in self.on_sweep:
            told(self._kept.keys())

    def _add(self, tensor: Tensor, flat: Tensor) -> Shadowed:
        self._unswept += flat.nbytes + ENTRY
        if self._unswept > SWEEP_EVERY:
            self._sweep()
        reference = StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]
        added = Shadowed(reference, flat, _real(tensor))
        self._kept[self.key(tensor)] = added
        return added
