"""The device that a program is rehearsed for: a name, or the file of a profile that ``precfix probe`` saved."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import UsageError

if TYPE_CHECKING:
    from ...probes.rehearsal.simulated import Simulated
    from ..profiles.profile import ProfiledDevice

_TYPES = {"cuda": "cuda", "rocm": "cuda", "mps": "mps", "cpu": "cpu"}
_NATIVE_FROM = (8, 0)
"""The first CUDA capability that computes in bfloat16, for profiles that do not say."""


def device_of(given: str | None) -> tuple[str, Simulated | None]:
    """The name of a device, and what it is like where its profile is a file. Raises UsageError for neither."""
    from ...probes.rehearsal.simulated import SIMULATED

    if given is None:
        return "cuda", None
    if given.lower() in SIMULATED:
        return given.lower(), None
    path = Path(given)
    if not path.is_file():
        raise UsageError(f"--as {given}: neither a file nor one of {', '.join(SIMULATED)}")
    return path.name, _simulated(path)


def _simulated(path: Path) -> Simulated:
    """The weakest training device of a saved profile."""
    from ...probes.rehearsal.simulated import Simulated, missing_on
    from ..profiles.profile import Support
    from ..profiles.profile_file import load

    profile = load(path)
    device = profile.weakest("bf16")
    if device is None or device.backend not in _TYPES:
        named = f"a device that cannot be simulated: {device.backend or 'none'}" if device else "no device"
        raise UsageError(f"--as {str(path)!r}: this profile has {named}")
    kind, hip = _TYPES[device.backend], device.backend == "rocm"
    capability = _capability(device)
    native = device.support("bf16")
    return Simulated(
        device.name or device.label,
        kind,
        capability,
        (device.memory_bytes or 16 << 30) >> 30,
        native is Support.NATIVE or (native is Support.UNKNOWN and (hip or capability >= _NATIVE_FROM)),
        hip,
        missing_on(kind),
    )


def _capability(device: ProfiledDevice) -> tuple[int, int]:
    """``7.5`` of CUDA, ``gfx942`` of ROCm; where the profile does not say, that of an A100."""
    found = re.fullmatch(r"(\d+)\.(\d+)|gfx(\d+)([0-9a-f])[0-9a-f]", device.capability)
    if found is None:
        return _NATIVE_FROM
    major, minor = (each for each in found.groups() if each is not None)
    return int(major), int(minor, 16)
