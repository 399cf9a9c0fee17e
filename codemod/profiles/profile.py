"""A profile: what ``precfix probe`` learned of a machine, as a versioned JSON file (docs/profile.md).

Known without torch, so that a laptop can repair a project for the machine the profile was taken on. profile_file.py
reads and writes it. ``extra`` holds the fields of a file that this version does not know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

ProfileJson: TypeAlias = "bool | int | float | str | Sequence[ProfileJson] | Mapping[str, ProfileJson] | None"


class ProfileSource(str, Enum):
    MEASURED = "measured"
    """``precfix probe`` ran on this machine."""
    PUBLISHED = "published"
    """Written by hand from published facts about the hardware; nothing ran."""


class Support(str, Enum):
    """What a device can do with a number format."""

    NATIVE = "native"
    EMULATED = "emulated"
    """It computes, by converting to float32: no faster, usually slower, than float32."""
    ABSENT = "absent"
    """Asking for it fails."""
    UNKNOWN = "unknown"
    """The probe could not tell."""


_WEAKEST_FIRST = (Support.ABSENT, Support.EMULATED, Support.UNKNOWN, Support.NATIVE)


class Status(str, Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    """It ran, and what it measured is wrong or an operation raised."""
    CRASHED = "crashed"
    """Its process died: a signal, or an exit without a result."""
    TIMEOUT = "timeout"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class DtypeVerdict:
    """Whether a device has a number format, and what says so, strongest first."""

    support: Support = Support.UNKNOWN
    evidence: tuple[str, ...] = ()
    speed_vs_fp32: float | None = None
    """Measured throughput divided by that of float32 at the same size; None when it was not measured."""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CheckResult:
    name: str = ""
    status: Status = Status.OK
    failure: str = ""
    """The class of what went wrong, empty when nothing did; ``class`` in JSON."""
    sentence: str = ""
    """For people: what was seen and, where something failed, what to do."""
    seconds: float = 0.0
    numbers: Mapping[str, ProfileJson] = field(default_factory=dict)
    """What was measured; each check documents its own."""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpSupport:
    """One operation in one 16-bit dtype."""

    op: str = ""
    dtype: str = ""
    """``bf16`` or ``fp16``."""
    forward: str = ""
    """``ok``, ``-`` (not run), or the class of the failure."""
    backward: str = ""
    """Likewise."""
    output: str = ""
    """The dtype of the result, empty when there is none."""
    message: str = ""
    """What the operation raised."""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """A known failure of PyTorch, tried out on the device."""

    name: str = ""
    holds: bool | None = None
    """Whether this torch fails; None when it could not be tried."""
    sentence: str = ""
    message: str = ""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The regime to train in."""

    regime: str = ""
    """``bf16-mixed``, ``fp16-mixed``, ``fp32``, ... ; empty when there is none to give."""
    reason: str = ""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProfiledDevice:
    """One device that torch can compute on."""

    device: str = ""
    """As torch spells it: ``cuda:0``, ``mps``, ``cpu``. ROCm devices are ``cuda:N`` with backend ``rocm``."""
    backend: str = ""
    """``cuda``, ``rocm``, ``mps``, ``xpu`` or ``cpu``."""
    name: str = ""
    capability: str = ""
    """``7.5`` on CUDA, ``gfx90a`` on ROCm, the generation (``M2``) on MPS, empty elsewhere."""
    memory_bytes: int | None = None
    verdicts: Mapping[str, DtypeVerdict] = field(default_factory=dict)
    """By short name: ``bf16``, ``fp16``, ``tf32``, ``fp8``."""
    recommended: Recommendation = field(default_factory=Recommendation)
    checks: tuple[CheckResult, ...] = ()
    ops: tuple[OpSupport, ...] = ()
    facts: tuple[Fact, ...] = ()
    rank: int | None = None
    """In a cluster profile: the rank that trains on it."""
    host: str = ""
    """In a cluster profile: the machine it sits in."""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)

    def support(self, dtype: str) -> Support:
        """What this device can do with ``dtype`` (``bf16``, ``fp16``, ``tf32``, ``fp8``)."""
        verdict = self.verdicts.get(dtype)
        return verdict.support if verdict is not None else Support.UNKNOWN

    @property
    def label(self) -> str:
        """The device in words: its name, and the compute capability where it is a CUDA device."""
        name = self.name or self.device or "unnamed device"
        return f"{name} (compute capability {self.capability})" if self.backend == "cuda" and self.capability else name


@dataclass(frozen=True, slots=True)
class Machine:
    """The computer around the devices."""

    host: str = ""
    system: str = ""
    """``Linux``, ``Darwin``, ``Windows``."""
    release: str = ""
    architecture: str = ""
    """``x86_64``, ``arm64``."""
    cpu: str = ""
    cpu_features: tuple[str, ...] = ()
    cores: int | None = None
    memory_bytes: int | None = None
    python: str = ""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Torch:
    """The torch that was probed; all fields are empty without one."""

    version: str = ""
    cuda: str = ""
    """The CUDA release torch was built for, empty for a CPU or ROCm build."""
    rocm: str = ""
    driver: str = ""
    cudnn: str = ""
    architectures: tuple[str, ...] = ()
    """What the build holds kernels for: ``sm_80``, ``gfx90a``."""
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """What one machine, or a cluster of them, can do."""

    source: ProfileSource = ProfileSource.MEASURED
    created: str = ""
    """ISO 8601, UTC."""
    precfix: str = ""
    """The release that wrote the file."""
    mode: str = ""
    """``quick`` or ``full``."""
    seconds: float | None = None
    note: str = ""
    machine: Machine = field(default_factory=Machine)
    torch: Torch = field(default_factory=Torch)
    devices: tuple[ProfiledDevice, ...] = ()
    checks: tuple[CheckResult, ...] = ()
    """Checks of the machine as a whole; those of a device stand with the device."""
    recommended: Recommendation = field(default_factory=Recommendation)
    extra: Mapping[str, ProfileJson] = field(default_factory=dict)

    @property
    def real(self) -> bool:
        """Whether it was measured, not written by hand."""
        return self.source is ProfileSource.MEASURED

    @property
    def training_devices(self) -> tuple[ProfiledDevice, ...]:
        """The devices a training run would use: the accelerators, or the CPU where there are none."""
        accelerators = tuple(device for device in self.devices if device.backend != "cpu")
        return accelerators or self.devices

    def support(self, dtype: str) -> Support:
        """What *every* training device can do with ``dtype``: the weakest of them."""
        device = self.weakest(dtype)
        return device.support(dtype) if device is not None else Support.UNKNOWN

    def weakest(self, dtype: str, device_type: str | None = None) -> ProfiledDevice | None:
        """The device of a torch device type that does least with ``dtype``; without a type of those that train."""
        return min(
            self.meant(device_type), key=lambda device: _WEAKEST_FIRST.index(device.support(dtype)), default=None
        )

    def meant(self, device_type: str | None) -> Sequence[ProfiledDevice]:
        """The devices of a torch device type (``cuda``); without one, those that a training run uses."""
        if device_type is None:
            return self.training_devices
        backends = ("cuda", "rocm") if device_type == "cuda" else (device_type,)
        return [device for device in self.devices if device.backend in backends]
