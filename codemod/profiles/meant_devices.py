"""Which devices of a profile a piece of code means."""

from __future__ import annotations

from collections.abc import Sequence

from .profile import Device, Profile, Support

BACKENDS = {"cuda": ("cuda", "rocm"), "cpu": ("cpu",), "mps": ("mps",), "xpu": ("xpu",)}
"""What torch's device types are called in a profile."""
_WEAKEST_FIRST = (Support.ABSENT, Support.EMULATED, Support.UNKNOWN, Support.NATIVE)


def devices_meant(profile: Profile, device_type: str | None) -> Sequence[Device]:
    """The profile's devices of a torch device type (``cuda``); without one, those that a training run uses."""
    if device_type is None:
        return profile.training_devices
    return [device for device in profile.devices if device.backend in BACKENDS.get(device_type, (device_type,))]


def weakest(devices: Sequence[Device], dtype: str) -> Device | None:
    """The device that does least with ``dtype``."""
    return min(devices, key=lambda device: _WEAKEST_FIRST.index(device.support(dtype)), default=None)
