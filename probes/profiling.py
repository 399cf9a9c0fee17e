"""The results of a probe as the profile that is saved."""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable

from ..codemod.profile import (
    Check,
    Device,
    Fact,
    Json,
    Machine,
    OpSupport,
    Profile,
    Recommendation,
    Source,
    Status,
    Support,
    Torch,
    Verdict,
)
from . import results as measured

REGIMES = ("bf16-mixed", "fp16-mixed", "fp32")
"""The regimes a cluster is given, best first."""
NEEDS = {"bf16-mixed": "bf16", "fp16-mixed": "fp16"}
"""The dtype a regime needs natively."""


def profile_of(results: measured.Results, precfix: str = "") -> Profile:
    """What `precfix probe --save` writes; ``precfix`` is the release that writes it."""
    devices = tuple(_device(each) for each in results.devices)
    return Profile(
        source=Source.MEASURED,
        created=results.created,
        precfix=precfix,
        mode=results.mode,
        seconds=results.seconds,
        machine=_machine(results),
        torch=_torch(results.versions),
        devices=devices,
        checks=tuple(_check(each) for each in results.environment),
        recommended=recommended_for(devices),
    )


def recommended_for(devices: Iterable[Device]) -> Recommendation:
    """The best regime that every training device supports natively, and who stands in the way of a better one.

    Accelerators count, the CPU only where there is none. The device's own recommendation is what it can do at most.
    """
    trained = Profile(devices=tuple(devices)).training_devices
    wanted = {device.recommended.regime for device in trained if device.recommended.regime}
    if not trained or not wanted:
        return Recommendation()
    if len(wanted) == 1:
        return next(device.recommended for device in trained if device.recommended.regime)
    weakest = max(wanted, key=lambda regime: REGIMES.index(regime) if regime in REGIMES else len(REGIMES))
    regime = weakest if weakest in REGIMES else "fp32"
    needed = NEEDS.get(regime)
    if needed and any(device.support(needed) is not Support.NATIVE for device in trained):
        regime = "fp32"
    reasons = sorted({f"{device.label}: {device.recommended.regime}" for device in trained})
    return Recommendation(regime, f"the devices differ ({'; '.join(reasons)}); every one of them can do {regime}")


def _machine(results: measured.Results) -> Machine:
    cpu = next((each for each in results.devices if each.backend == "cpu"), None)
    return Machine(
        host=socket.gethostname(),
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        cpu=cpu.name if cpu is not None else "",
        cpu_features=tuple(cpu.capability.replace(",", " ").split()) if cpu is not None else (),
        memory_bytes=cpu.memory_bytes if cpu is not None else None,
        python=results.versions.python or platform.python_version(),
    )


def _torch(versions: measured.Versions) -> Torch:
    return Torch(versions.torch, versions.cuda, versions.hip, versions.driver, versions.cudnn)


def _device(found: measured.DeviceResult) -> Device:
    return Device(
        device=found.device,
        backend=found.backend,
        name=found.name,
        capability=found.capability,
        memory_bytes=found.memory_bytes,
        verdicts={name: _verdict(each) for name, each in found.verdicts.items()},
        recommended=Recommendation(found.recommended.regime, found.recommended.reason),
        checks=tuple(_check(each) for each in found.checks),
        ops=tuple(_op(each) for each in found.ops),
        facts=tuple(Fact(each.name, each.holds, each.sentence, each.message) for each in found.facts),
    )


def _verdict(found: measured.Verdict) -> Verdict:
    return Verdict(Support(found.support.value), found.evidence, found.speed_vs_fp32)


def _check(found: measured.CheckResult) -> Check:
    numbers: dict[str, Json] = dict(found.numbers)
    return Check(found.name, Status(found.status.value), found.failure, found.sentence, found.seconds, numbers)


def _op(found: measured.OpSupport) -> OpSupport:
    return OpSupport(found.op, found.dtype, found.forward, found.backward, found.output, found.message)
