"""The first thing in the process: wait for the program to import torch, and be ready for whatever way it ends."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from .imports import after_import
from .settings import Settings

SESSION: list[Any] = []
"""The one session of this process, once torch is there; tests and forks look it up here."""


def begin(file: str) -> None:
    """Called by ``sitecustomize`` before the program's first line."""
    settings = Settings(**json.loads(Path(file).read_text("utf-8")))
    after_import("torch", lambda torch: start(torch, settings))


def start(module: Any, settings: Settings) -> None:

    importlib.import_module("torch.utils._device")  # torch itself only imports it when it needs it
    from .session import Session

    if settings.real_if_there and module.cuda.is_available():
        settings = replace(settings, device={**settings.device, "simulated": False})
    SESSION[:] = [Session(module, settings)]
    SESSION[0].start()
