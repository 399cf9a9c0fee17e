"""What a probe measured, as frozen data that needs only the standard library; `to_json` makes it plain JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from typing import TypeAlias

JsonValue: TypeAlias = "None | bool | int | float | str | list[JsonValue] | dict[str, JsonValue]"
Numbers: TypeAlias = Mapping[str, JsonValue]
"""What a check measured: names to JSON values. Each check's page in docs/probe.md names its own."""

DTYPES = ("bf16", "fp16", "tf32", "fp8")
"""The dtypes a device gets a verdict for."""
REGIMES = ("fp32", "bf16-mixed", "bf16-true", "fp16-mixed")
"""The regimes a probe trains in."""


class Status(str, Enum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    """It ran and an operation raised, or a number is outside its bound."""
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    """The process ended by a signal or an exit of its own."""
    SKIPPED = "skipped"


class Support(str, Enum):
    """What a device does with a dtype."""

    NATIVE = "native"
    EMULATED = "emulated"
    """It computes, through conversions: correct, slower than or as slow as fp32."""
    ABSENT = "absent"
    """It raises, or has no meaning on this device."""
    UNKNOWN = "unknown"
    """Neither capability nor measurement could be had; the evidence says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One dtype on one device, and why: each piece of evidence is a short sentence."""

    support: Support
    evidence: tuple[str, ...] = ()
    speed_vs_fp32: float | None = None
    """Measured throughput divided by that of fp32 at the same size; None when it was not measured."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check on one device. ``failure`` is a class of failures.py, empty when nothing is wrong."""

    name: str
    device: str
    status: Status
    failure: str = ""
    """Spelled ``class`` in JSON."""
    sentence: str = ""
    """What was seen and, where something failed, what to do."""
    seconds: float = 0.0
    numbers: Numbers = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpSupport:
    """One operation in one dtype. ``forward`` and ``backward`` are ``ok``, ``-`` (not run) or a failure's class."""

    op: str
    dtype: str
    forward: str
    backward: str
    output: str = ""
    """The dtype of the result, empty when there is none."""
    message: str = ""
    """What the operation raised."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A known failure of PyTorch, tried out here. ``holds`` is None when it could not be tried."""

    name: str
    holds: bool | None
    """Whether this torch fails on this device."""
    sentence: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The regime to train in (one of REGIMES) and the reason."""

    regime: str
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One device: what it is, what it can do, and every check that ran on it."""

    device: str
    """``cuda:0``, ``cpu``: the way torch writes it."""
    name: str
    backend: str
    """``cuda``, ``rocm``, ``xpu``, ``mps`` or ``cpu``."""
    capability: str
    """``9.0`` for CUDA, ``gfx942`` for ROCm, the instruction sets that matter for a CPU; may be empty."""
    memory_bytes: int | None
    verdicts: Mapping[str, Verdict]
    """For each of DTYPES."""
    recommended: Recommendation
    checks: tuple[CheckResult, ...] = ()
    ops: tuple[OpSupport, ...] = ()
    facts: tuple[Fact, ...] = ()


@dataclass(frozen=True, slots=True)
class Versions:
    """Empty strings where there is none."""

    torch: str = ""
    python: str = ""
    platform: str = ""
    cuda: str = ""
    """The CUDA version that torch was built with."""
    hip: str = ""
    driver: str = ""
    cudnn: str = ""
    numpy: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Everything one run of the probe found out."""

    mode: str
    """``quick`` or ``full``."""
    created: str
    """UTC, ISO 8601."""
    seconds: float
    versions: Versions
    devices: tuple[DeviceResult, ...]
    environment: tuple[CheckResult, ...] = ()
    """Checks of no single device: torch itself, the drivers, devices that were asked for and are not there."""


def to_json(value: object) -> JsonValue:
    """Results (or any part of them) as plain JSON values; ``failure`` becomes ``class``, tuples become lists."""
    if isinstance(value, Enum):
        return str(value.value)
    if is_dataclass(value) and not isinstance(value, type):
        return dict(_fields(value))
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{type(value).__name__} is no part of the results")


def _fields(value: object) -> Iterator[tuple[str, JsonValue]]:
    for each in fields(value):  # type: ignore[arg-type]
        name = "class" if isinstance(value, CheckResult) and each.name == "failure" else each.name
        yield name, to_json(getattr(value, each.name))
