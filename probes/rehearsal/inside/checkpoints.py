"""``--no-write``: checkpoints go to a folder that is gone after the rehearsal, and are read back from there."""

from __future__ import annotations

import os
from typing import Any

from .imports import after_import


class Checkpoints:
    """Takes the place of the functions that write checkpoints."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.folder = os.path.join(session.settings.answers, "written")
        self.moved: dict[str, str] = {}

    def install(self) -> None:
        if not self.session.settings.no_write:
            return
        torch = self.session.torch
        save, load = torch.save, torch.load
        torch.save = torch.serialization.save = lambda obj, f, *args, **kwargs: save(
            obj, self.elsewhere(f), *args, **kwargs
        )
        torch.load = torch.serialization.load = lambda f, *args, **kwargs: load(self.found(f), *args, **kwargs)
        after_import("safetensors.torch", self._safetensors)

    def _safetensors(self, module: Any) -> None:
        save = module.save_file

        def save_file(tensors: Any, filename: Any, *args: Any, **kwargs: Any) -> Any:
            return save(tensors, self.elsewhere(filename), *args, **kwargs)

        module.save_file = save_file

    def elsewhere(self, file: Any) -> Any:
        """Where a checkpoint is written in place of the file that the program names."""
        if not isinstance(file, str | os.PathLike):
            return file
        path = os.path.abspath(os.fspath(file))
        if path not in self.moved:
            os.makedirs(self.folder, exist_ok=True)
            self.moved[path] = os.path.join(self.folder, f"{os.getpid()}-{len(self.moved)}-{os.path.basename(path)}")
            self.session.recorder.note("checkpoints were not kept: --no-write")
        return self.moved[path]

    def found(self, file: Any) -> Any:
        known = isinstance(file, str | os.PathLike)
        return self.moved.get(os.path.abspath(os.fspath(file)), file) if known else file
