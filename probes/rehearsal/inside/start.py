"""The first thing in the process: wait for the program to import torch, and be ready for whatever way it ends."""

from __future__ import annotations

import importlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import children
from .imports import after_import
from .recorder import Recorder
from .settings import ProcessSettings

SESSION: list[Any] = []
"""The one session of this process, once torch is there; tests and forks look it up here."""


_HAS_GPU = (
    "torch finds a GPU in this machine: leave --as out to record what it does, type --compare to check the rehearsal "
    "against it, or hide it with CUDA_VISIBLE_DEVICES="
)


def begin(file: str) -> None:
    """Called by ``sitecustomize`` before the program's first line."""
    settings = ProcessSettings(**json.loads(Path(file).read_text("utf-8")))
    children.follow(file, str(Path(__file__).parents[1] / "inject"))
    after_import("torch", lambda torch: start(torch, settings))


def start(module: Any, settings: ProcessSettings) -> None:
    """Called once torch is there; ends the process where the machine is not the one that was asked for."""
    importlib.import_module("torch.utils._device")  # torch itself only imports it when it needs it
    from .session import Session

    found = _finds_gpu(module)
    settings, refusal = on_this_machine(settings, found)
    if refusal:
        recorder = Recorder(settings.answers)
        recorder.state["refused"] = refusal
        recorder.write()
        os._exit(0)
    if found and (settings.on.simulated or settings.on.type == "cpu"):
        _hide_gpus()
    SESSION[:] = [Session(module, settings)]
    SESSION[0].start()


def _hide_gpus() -> None:
    """What slips past the rehearsal must not end up on a GPU: for CUDA alone, as programs read the variable as well."""
    os.putenv("CUDA_VISIBLE_DEVICES", "")


def _finds_gpu(module: Any) -> bool:
    """Asked of the driver: CUDA itself would then know its devices, before the program has chosen them or forked."""
    name = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        return bool(module.cuda.is_available())
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def on_this_machine(settings: ProcessSettings, has_gpu: bool) -> tuple[ProcessSettings, str]:
    """What is asked of the process on a machine with or without a GPU, and why it cannot be done here."""
    if settings.gpu == "required" and not has_gpu:
        return settings, "--compare requires a GPU, and torch finds none in this machine"
    if settings.gpu == "refused" and has_gpu and settings.on.simulated:
        return settings, _HAS_GPU
    if settings.gpu in ("recorded", "required") and has_gpu:
        return replace(settings, device={**settings.device, "simulated": False}), ""
    return settings, ""
