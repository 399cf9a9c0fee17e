"""What the parent asks of the process, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProgramDevice:
    """A device as its program sees it. ``type`` is what torch calls it: cuda, mps, cpu."""

    profile: str
    type: str
    simulated: bool
    name: str = ""
    capability: tuple[int, int] = (8, 0)
    memory: int = 40 << 30
    native_bf16: bool = True
    hip: bool = False
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Operations of ATen -> the dtypes that this device has no kernel for."""


@dataclass(frozen=True)
class ProcessSettings:
    """Given to every process of the command."""

    root: str
    answers: str
    """The folder into which each process writes what it saw."""
    device: dict[str, Any]
    """The fields of :class:`ProgramDevice`."""
    steps: int = 3
    no_write: bool = False
    began: float = 0.0
    """When the rehearsal began: files that are older are not overwritten."""
    gpu: str = "ignored"
    """The value of ``running.Gpu``."""
    shadow: tuple[str, ...] = ()
    """Patterns of the modules to compare with a float64 shadow; without any there is no shadow."""

    @property
    def on(self) -> ProgramDevice:
        return ProgramDevice(**{**self.device, "capability": tuple(self.device.get("capability", (8, 0)))})
