"""The verdict for people: one screen. Lines are (text, style) segments, as codemod's reports have them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from ..codemod.profiles.profile import CheckResult, DtypeVerdict, Profile, ProfiledDevice, Status, Support
from .checks.op_matrix import DTYPES, NOT_RUN

Line = tuple[tuple[str, str], ...]
SUPPORT_STYLES = {
    Support.NATIVE: "good",
    Support.EMULATED: "unsafe",
    Support.ABSENT: "note",
    Support.UNKNOWN: "note",
}
MAX_OPS = 12
SHOWN = ("lost_updates",)
"""Checks that hold and whose numbers are told all the same."""


def verdict_lines(profile: Profile) -> Iterator[Line]:
    """Everything worth knowing: the machine, each device, what is wrong, what it means for code."""
    yield ((_heading(profile), "place"),)
    for check in profile.checks:
        if check.status is not Status.OK:
            yield from _trouble(check)
    for same in _alike(profile.devices):
        yield ()
        yield from _device_lines(same)
    if len(profile.training_devices) > 1 and profile.recommended.regime:
        yield ()
        yield ("together  ", "place"), *_recommended(profile.recommended.regime, profile.recommended.reason)


def _alike(devices: Iterable[ProfiledDevice]) -> Iterator[list[ProfiledDevice]]:
    """Neighbors of the same make that came out the same are shown once."""

    def key(device: ProfiledDevice) -> object:
        supports = tuple((name, verdict.support) for name, verdict in device.verdicts.items())
        checks = tuple((check.name, check.status, check.failure) for check in device.checks)
        return device.name, device.capability, supports, checks, device.recommended.regime

    for _, group in groupby(devices, key):
        yield list(group)


def _heading(profile: Profile) -> str:
    torch, machine = profile.torch, profile.machine
    parts = [f"PyTorch {torch.version}" if torch.version else "no PyTorch"]
    parts += [f"CUDA {torch.cuda}"] * bool(torch.cuda) + [f"ROCm {torch.rocm}"] * bool(torch.rocm)
    parts += [f"driver {torch.driver}"] * bool(torch.driver)
    parts += [f"Python {machine.python}", f"{machine.system} {machine.architecture}"]
    return f"{', '.join(parts)} ({profile.mode} probe, {profile.seconds or 0:.0f} s)"


def _device_lines(same: list[ProfiledDevice]) -> Iterator[Line]:
    device = same[0]
    names = device.device if len(same) == 1 else f"{device.device} to {same[-1].device}"
    yield (names, "place"), (f"  {_described(device)}", "place")
    for name, verdict in device.verdicts.items():
        yield _verdict_line(name, verdict)
    if device.recommended.regime:
        yield ("  use   ", "note"), *_recommended(device.recommended.regime, device.recommended.reason)
    for check in device.checks:
        if check.status not in (Status.OK, Status.SKIPPED):
            yield from _trouble(check)
    yield _tally(device.checks)
    yield from _shown(device.checks)
    yield from _meaning(device)


def _described(device: ProfiledDevice) -> str:
    memory = f", {device.memory_bytes / 2**30:.0f} GiB" if device.memory_bytes else ""
    capability = f" ({device.capability})" if device.capability and device.backend != "cuda" else ""
    return f"{device.label}{capability}{memory}"


def _verdict_line(name: str, verdict: DtypeVerdict) -> Line:
    return (
        (f"  {name:<6}", "text"),
        (f"{verdict.support.value:<9}", SUPPORT_STYLES[verdict.support]),
        ("; ".join(verdict.evidence), "text"),
    )


def _recommended(regime: str, reason: str) -> Line:
    return (regime, "good"), (f": {reason}", "text")


def _trouble(check: CheckResult) -> Iterator[Line]:
    if check.status is Status.SKIPPED:
        yield ("  note  ", "note"), (check.sentence, "text")
        return
    word = f"{check.name} {check.status.value}" + (f" [{check.failure}]" if check.failure else "")
    yield (f"  {word}", "bad"), (f": {check.sentence}", "text")


def _tally(checks: tuple[CheckResult, ...]) -> Line:
    passed = sum(check.status is Status.OK for check in checks)
    skipped = [check for check in checks if check.status is Status.SKIPPED]
    text = f"  {passed} of {len(checks)} checks passed"
    if skipped:
        text += f", {len(skipped)} not run"
    return ((text, "note"),)


def _shown(checks: tuple[CheckResult, ...]) -> Iterator[Line]:
    """What a check has measured that nobody believes before they see it."""
    for check in checks:
        if check.name in SHOWN and check.status is Status.OK:
            yield ("  16 bits  ", "note"), (check.sentence, "text")


def _meaning(device: ProfiledDevice) -> Iterator[Line]:
    """What failed, and what that means for code."""
    said = [fact.sentence for fact in device.facts if fact.holds]
    for dtype in DTYPES:
        missing = [op.op for op in device.ops if op.dtype == dtype and not _runs(op.forward, op.backward)]
        if missing:
            more = f" and {len(missing) - MAX_OPS} more" if len(missing) > MAX_OPS else ""
            said.append(f"keep in float32, {dtype} has no kernel: {', '.join(missing[:MAX_OPS])}{more}")
    if said:
        yield (("  in your code", "place"),)
    for sentence in said:
        yield ("  - ", "note"), (sentence, "text")


def _runs(forward: str, backward: str) -> bool:
    return forward == "ok" and backward in ("ok", NOT_RUN)
