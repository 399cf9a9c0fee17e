"""A profile: what ``precfix probe`` learned of a machine, as a versioned JSON file (docs/profile.md).

Read and written without torch, so that a laptop can repair a project for the machine the profile was taken on. A field
that this version does not know is kept when the file is written again; a field that is missing takes its default, so
files of older releases stay readable. ``VERSION`` rises only when a known field changes its meaning.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from pathlib import Path
from typing import TypeAlias, TypeVar

from .model import UsageError

VERSION = 1
MARK = "precfix_profile"
"""The key that makes a JSON object a profile; its value is the version."""
MAX_BYTES = 16 << 20
MAX_DEPTH = 64

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
E = TypeVar("E", bound=Enum)


class Source(str, Enum):
    """Where a profile comes from."""

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
class Verdict:
    """Whether a device has a number format, and what says so, strongest first."""

    support: Support = Support.UNKNOWN
    evidence: tuple[str, ...] = ()
    speed_vs_fp32: float | None = None
    """Measured throughput divided by that of float32 at the same size; None when it was not measured."""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check."""

    name: str = ""
    status: Status = Status.OK
    failure: str = ""
    """The class of what went wrong, empty when nothing did; ``class`` in JSON."""
    sentence: str = ""
    """For people: what was seen and, where something failed, what to do."""
    seconds: float = 0.0
    numbers: Mapping[str, Json] = field(default_factory=dict)
    """What was measured; each check documents its own."""
    extra: Mapping[str, Json] = field(default_factory=dict)


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
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Fact:
    """A known failure of PyTorch, tried out on the device."""

    name: str = ""
    holds: bool | None = None
    """Whether this torch fails; None when it could not be tried."""
    sentence: str = ""
    message: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The regime to train in."""

    regime: str = ""
    """``bf16-mixed``, ``fp16-mixed``, ``fp32``, ... ; empty when there is none to give."""
    reason: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Device:
    """One device that torch can compute on."""

    device: str = ""
    """As torch spells it: ``cuda:0``, ``mps``, ``cpu``. ROCm devices are ``cuda:N`` with backend ``rocm``."""
    backend: str = ""
    """``cuda``, ``rocm``, ``mps``, ``xpu`` or ``cpu``."""
    name: str = ""
    capability: str = ""
    """``7.5`` on CUDA, ``gfx90a`` on ROCm, the generation (``M2``) on MPS, empty elsewhere."""
    memory_bytes: int | None = None
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """By short name: ``bf16``, ``fp16``, ``tf32``, ``fp8``."""
    recommended: Recommendation = field(default_factory=Recommendation)
    checks: tuple[Check, ...] = ()
    ops: tuple[OpSupport, ...] = ()
    facts: tuple[Fact, ...] = ()
    rank: int | None = None
    """In a cluster profile: the rank that trains on it."""
    host: str = ""
    """In a cluster profile: the machine it sits in."""
    extra: Mapping[str, Json] = field(default_factory=dict)

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
    extra: Mapping[str, Json] = field(default_factory=dict)


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
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """What one machine, or a cluster of them, can do."""

    source: Source = Source.MEASURED
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
    devices: tuple[Device, ...] = ()
    checks: tuple[Check, ...] = ()
    """Checks of the machine as a whole; those of a device stand with the device."""
    recommended: Recommendation = field(default_factory=Recommendation)
    extra: Mapping[str, Json] = field(default_factory=dict)

    @property
    def real(self) -> bool:
        """Whether it was measured, not written by hand."""
        return self.source is Source.MEASURED

    @property
    def training_devices(self) -> tuple[Device, ...]:
        """The devices a training run would use: the accelerators, or the CPU where there are none."""
        accelerators = tuple(device for device in self.devices if device.backend != "cpu")
        return accelerators or self.devices

    def support(self, dtype: str) -> Support:
        """What *every* training device can do with ``dtype``: the weakest of them."""
        found = {device.support(dtype) for device in self.training_devices}
        order = (Support.ABSENT, Support.EMULATED, Support.UNKNOWN, Support.NATIVE)
        return next((support for support in order if support in found), Support.UNKNOWN)

    def weakest(self, dtype: str) -> Device | None:
        """A training device whose support of ``dtype`` is `support`; None without devices."""
        wanted = self.support(dtype)
        return next((device for device in self.training_devices if device.support(dtype) is wanted), None)


# --- writing ----------------------------------------------------------------------------------------------------------


def dump(profile: Profile) -> str:
    """The JSON text of a profile, with a final newline."""
    plain = _plain(profile)
    assert isinstance(plain, dict)
    return json.dumps({MARK: VERSION, **plain}, indent=2, allow_nan=False) + "\n"


def save(profile: Profile, path: Path) -> None:
    """Write a profile; the file is complete or not there. Raises `UsageError` when it cannot be written."""
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(dump(profile), "utf-8")
        part.replace(path)
    except OSError as error:
        raise UsageError(f"the profile cannot be written to {str(path)!r}: {error.strerror}") from error


_JSON_NAMES = {"failure": "class"}
"""Fields whose JSON name is a word that Python keeps for itself."""


def _plain(value: object) -> Json:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, float) and value - value != 0.0:
        return None  # JSON has no NaN and no infinity
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, Iterable):
        return [_plain(each) for each in value]
    known: dict[str, Json] = {}
    extra: Mapping[str, Json] = {}
    for each in fields(value):  # type: ignore[arg-type]
        if each.name == "extra":
            extra = value.extra  # type: ignore[attr-defined]
        else:
            known[_JSON_NAMES.get(each.name, each.name)] = _plain(getattr(value, each.name))
    return {**known, **{key: _plain(each) for key, each in extra.items()}}


# --- reading ----------------------------------------------------------------------------------------------------------


class _Malformed(Exception):
    """A field has the wrong type; the text says which."""


def load(path: Path) -> Profile:
    """The profile in a file. Raises `UsageError`: the file, what is wrong with it, what to do."""
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"the profile {str(path)!r} cannot be read: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise UsageError(f"{str(path)!r} is not a profile: larger than {MAX_BYTES >> 20} MiB; {_AGAIN}")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{str(path)!r} is not a profile: not UTF-8 text; {_AGAIN}") from None
    return parse(text, str(path))


def parse(text: str, name: str) -> Profile:
    """The profile in a JSON text; ``name`` is the file it came from, for messages. Raises `UsageError`."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, json.JSONDecodeError) else "the JSON cannot be read"
        raise UsageError(f"{name!r} is not a profile: {reason}; {_AGAIN}") from None
    version = read.get(MARK) if isinstance(read, dict) else None
    if version is None:
        raise UsageError(f"{name!r} is not a profile: there is no {MARK!r} in it; {_AGAIN}")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise UsageError(f"{name!r} is not a profile: its version is {_short(version)}; {_AGAIN}")
    if version > VERSION:
        raise UsageError(
            f"{name!r} is a profile of version {version}, and this precfix reads up to {VERSION}: "
            "update precfix, or run its own `precfix probe --save`"
        )
    try:
        _check_depth(read, 0)
        return _profile({key: value for key, value in read.items() if key != MARK})
    except _Malformed as error:
        raise UsageError(f"{name!r} is a broken profile: {error}; {_AGAIN}") from None


_AGAIN = "`precfix probe --save FILE` writes one"


def _check_depth(value: object, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise _Malformed("it is nested too deeply")
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            _check_depth(each, depth + 1)


class _Reader:
    """Takes the known fields out of a JSON object, each with its type; what is left is ``rest``."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise _Malformed(f"{where} is {_short(value)}, not an object")
        self.where = where
        self.rest: dict[str, Json] = dict(value)

    def _take(self, key: str, kinds: tuple[type, ...], wanted: str) -> object:
        value = self.rest.pop(key, None)
        if value is None:
            return None
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _Malformed(f"{self.path(key)} is {_short(value)}, not {wanted}")
        return value

    def path(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where != "the file" else key

    def text(self, key: str, default: str = "") -> str:
        value = self._take(key, (str,), "a text")
        return value if isinstance(value, str) else default

    def integer(self, key: str) -> int | None:
        value = self._take(key, (int,), "a whole number")
        return value if isinstance(value, int) else None

    def number(self, key: str) -> float | None:
        value = self._take(key, (int, float), "a number")
        return float(value) if isinstance(value, int | float) and abs(value) < 1e300 else None

    def flag(self, key: str) -> bool | None:
        value = self._take(key, (bool,), "true or false")
        return value if isinstance(value, bool) else None

    def word(self, key: str, kind: type[E], default: E) -> E:
        value = self.text(key)
        if not value:
            return default
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise _Malformed(f"{self.path(key)} is {_short(value)}, not one of {known}") from None

    def items(self, key: str) -> list[_Reader]:
        value = self._take(key, (list,), "a list")
        listed = value if isinstance(value, list) else []
        return [_Reader(each, f"{self.path(key)}[{index}]") for index, each in enumerate(listed)]

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._take(key, (list,), "a list")
        listed = value if isinstance(value, list) else []
        for each in listed:
            if not isinstance(each, str):
                raise _Malformed(f"{self.path(key)} holds {_short(each)}, not a text")
        return tuple(listed)

    def mapping(self, key: str) -> dict[str, Json]:
        value = self._take(key, (dict,), "an object")
        return value if isinstance(value, dict) else {}

    def object(self, key: str) -> _Reader:
        return _Reader(self.mapping(key), self.path(key))


def _short(value: object) -> str:
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 60 else f"{text[:57]}..."


def _profile(value: dict[str, Json]) -> Profile:
    read = _Reader(value, "the file")
    return Profile(
        source=read.word("source", Source, Source.MEASURED),
        created=read.text("created"),
        precfix=read.text("precfix"),
        mode=read.text("mode"),
        seconds=read.number("seconds"),
        note=read.text("note"),
        machine=_machine(read.object("machine")),
        torch=_torch(read.object("torch")),
        devices=tuple(_device(each) for each in read.items("devices")),
        checks=tuple(_check(each) for each in read.items("checks")),
        recommended=_recommendation(read.object("recommended")),
        extra=read.rest,
    )


def _machine(read: _Reader) -> Machine:
    return Machine(
        host=read.text("host"),
        system=read.text("system"),
        release=read.text("release"),
        architecture=read.text("architecture"),
        cpu=read.text("cpu"),
        cpu_features=read.texts("cpu_features"),
        cores=read.integer("cores"),
        memory_bytes=read.integer("memory_bytes"),
        python=read.text("python"),
        extra=read.rest,
    )


def _torch(read: _Reader) -> Torch:
    return Torch(
        version=read.text("version"),
        cuda=read.text("cuda"),
        rocm=read.text("rocm"),
        driver=read.text("driver"),
        cudnn=read.text("cudnn"),
        architectures=read.texts("architectures"),
        extra=read.rest,
    )


def _device(read: _Reader) -> Device:
    verdicts = read.object("verdicts")
    return Device(
        device=read.text("device"),
        backend=read.text("backend"),
        name=read.text("name"),
        capability=read.text("capability"),
        memory_bytes=read.integer("memory_bytes"),
        verdicts={name: _verdict(verdicts.object(name)) for name in list(verdicts.rest)},
        recommended=_recommendation(read.object("recommended")),
        checks=tuple(_check(each) for each in read.items("checks")),
        ops=tuple(_op(each) for each in read.items("ops")),
        facts=tuple(_fact(each) for each in read.items("facts")),
        rank=read.integer("rank"),
        host=read.text("host"),
        extra=read.rest,
    )


def _verdict(read: _Reader) -> Verdict:
    support = read.word("support", Support, Support.UNKNOWN)
    return Verdict(support, read.texts("evidence"), read.number("speed_vs_fp32"), read.rest)


def _check(read: _Reader) -> Check:
    return Check(
        name=read.text("name"),
        status=read.word("status", Status, Status.OK),
        failure=read.text("class"),
        sentence=read.text("sentence"),
        seconds=read.number("seconds") or 0.0,
        numbers=read.mapping("numbers"),
        extra=read.rest,
    )


def _op(read: _Reader) -> OpSupport:
    return OpSupport(
        op=read.text("op"),
        dtype=read.text("dtype"),
        forward=read.text("forward"),
        backward=read.text("backward"),
        output=read.text("output"),
        message=read.text("message"),
        extra=read.rest,
    )


def _fact(read: _Reader) -> Fact:
    return Fact(read.text("name"), read.flag("holds"), read.text("sentence"), read.text("message"), read.rest)


def _recommendation(read: _Reader) -> Recommendation:
    return Recommendation(read.text("regime"), read.text("reason"), read.rest)
