"""Checkpoints: what was saved on the device says so, and what is read is put where the program wants it."""

from __future__ import annotations

import functools
from typing import Any


class Loading:
    """A storage is told of in the way that torch offers for new devices."""

    def __init__(self, session: Any) -> None:
        self.session, self.torch, self.devices = session, session.torch, session.devices
        self._there: set[int] = set()
        """Storages of the device that are being saved."""
        self._moved = False
        """Whether a storage that is being read was put on the device."""

    def install(self) -> None:
        torch = self.torch
        serialization = torch.serialization
        serialization.register_package(0, self._tag, self._restored)
        torch.save = serialization.save = self._saving(torch.save)
        torch.load = serialization.load = self._loading(torch.load)
        for kind in (torch.storage._StorageBase, torch.TypedStorage):
            setattr(kind, self.devices.kind, lambda storage, *args, **kwargs: self._put(storage))

    def _tag(self, storage: Any) -> str | None:
        return str(self.devices.device) if storage._cdata in self._there else None

    def _restored(self, storage: Any, location: str) -> Any:
        if not self.devices.asked(location):
            return None
        self._moved = True
        return storage

    def _put(self, storage: Any) -> Any:
        """``storage.cuda()``."""
        self._moved = True
        return storage

    def _saving(self, save: Any) -> Any:
        @functools.wraps(save)
        def saving(obj: Any, *args: Any, **kwargs: Any) -> Any:
            self._there = {each.untyped_storage()._cdata for each in self._on_device(obj)}
            try:
                return save(obj, *args, **kwargs)
            finally:
                self._there = set()

        return saving

    def _on_device(self, obj: Any) -> Any:
        for each in self.session.functions.tensors_of(obj):
            if each.layout is self.torch.strided and self.session.tensor_devices.on_device(each):
                yield each

    def _loading(self, load: Any) -> Any:
        def loading(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
            asked = self.devices.asked(map_location)
            self._moved = bool(asked)
            loaded = load(f, self.devices.real(map_location) if asked else map_location, *args, **kwargs)
            if self._moved:
                self.session.functions.put_on_device(loaded, "load")
            return loaded

        return loading
