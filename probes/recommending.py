"""The regime to train in, from what a device can do and what was tried on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..codemod.profiles.profile import (
    CheckResult,
    DtypeVerdict,
    Profile,
    ProfiledDevice,
    ProfileJson,
    Recommendation,
    Status,
    Support,
)
from .checks import train50
from .step import StepFailure, StepResult

StepResults = Mapping[str, StepResult]
NEEDS = {"bf16-mixed": "bf16", "bf16-true": "bf16", "fp16-mixed": "fp16"}
"""The dtype that a regime computes in."""
MIXED = ("bf16-mixed", "fp16-mixed")
"""From best to worst; float32 needs nothing."""


def works(
    regime: str, verdicts: Mapping[str, DtypeVerdict], smoke: StepResults | None, training: StepResults | None
) -> str:
    """An empty text when a regime can be used here, else why not.

    None for a check that was not asked for counts as passed; a step that is missing from one that ran does not.
    """
    dtype = NEEDS.get(regime, "fp32")
    verdict = verdicts.get(dtype, DtypeVerdict(Support.NATIVE))
    if verdict.support is not Support.NATIVE:
        speed = f" ({verdict.speed_vs_fp32:.2g}x of fp32)" if verdict.speed_vs_fp32 is not None else ""
        return f"{dtype} is {verdict.support.value}{speed}"
    if smoke is not None and (said := _smoke_fails(smoke.get(dtype))):
        return f"{dtype} autocast fails: {said}"
    if training is not None and (said := _training_fails(training.get(regime))):
        return f"training in {regime} fails: {said}"
    return ""


def _smoke_fails(tried: StepResult | None) -> str:
    if tried is None:
        return "the check did not get that far"
    if tried.failure is not None:
        return tried.failure.sentence
    return "" if tried.flag("finite") and tried.flag("gradients_finite") else "it gives NaN or infinity"


def _training_fails(trained: StepResult | None) -> str:
    if trained is None:
        return "the check did not get that far"
    if trained.failure is not None:
        return trained.failure.sentence
    return "" if train50.learns(trained) else "it does not learn"


def recommend(
    verdicts: Mapping[str, DtypeVerdict], smoke: StepResults | None, training: StepResults | None
) -> Recommendation:
    """bf16-mixed where it is native and works, else fp16-mixed, else fp32; with the reason."""
    bf16, fp16 = (works(regime, verdicts, smoke, training) for regime in ("bf16-mixed", "fp16-mixed"))
    proof = "autocast works" + (" and training converges" if training else "")
    if not bf16:
        return Recommendation("bf16-mixed", f"bf16 is native{_speed(verdicts, 'bf16')}, {proof}; no GradScaler needed")
    if not fp16:
        reason = f"{bf16}; fp16 is native{_speed(verdicts, 'fp16')}, {proof}; use it with a GradScaler"
        return Recommendation("fp16-mixed", reason)
    return Recommendation("fp32", f"{bf16}; {fp16}")


def common_regime(devices: Sequence[ProfiledDevice]) -> Recommendation:
    """The best regime that all devices have natively and none of them advises against."""
    advised = [device.recommended for device in devices if device.recommended.regime]
    if len({each.regime for each in advised}) < 2:
        return advised[0] if advised else Recommendation()
    best = max(
        MIXED.index(each.regime) if each.regime in MIXED else 2 * ("bf16" not in each.regime) for each in advised
    )
    chosen = next((regime for regime in MIXED[best:] if not _without(devices, regime)), "fp32")
    said = f"{NEEDS[chosen]} is native" if chosen in NEEDS else "no 16-bit type is native"
    every = "rank" if devices[0].rank is not None else "device"
    return Recommendation(chosen, f"{said} on every {every}{_in_the_way(devices, chosen)}")


def _without(devices: Sequence[ProfiledDevice], regime: str) -> list[ProfiledDevice]:
    """The devices that lack the dtype of a regime."""
    return [device for device in devices if device.support(NEEDS[regime]) is not Support.NATIVE]


def _in_the_way(devices: Sequence[ProfiledDevice], chosen: str) -> str:
    """Which devices a better regime fails on."""
    for regime in MIXED[: MIXED.index(chosen) if chosen in MIXED else None]:
        if lacking := _without(devices, regime):
            dtype, first = NEEDS[regime], lacking[0]
            where = ", ".join(device.device for device in lacking)
            where = where if first.rank is None else ranks_told([device.rank or 0 for device in lacking])
            return f"; {dtype} is {first.support(dtype).value} on {where} ({first.name})"
    return ""


def ranks_told(numbers: Sequence[int]) -> str:
    """``ranks 0-3, 7``."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    text = ", ".join("-".join(map(str, run)) for run in runs)
    return f"rank {text}" if len(runs) == 1 and len(runs[0]) == 1 else f"ranks {text}"


def unmet(profile: Profile, wanted: Sequence[str]) -> list[str]:
    """One sentence for each requirement and device that does not meet it.

    A dtype is met where it is native, a regime where in addition autocast and training in it worked.
    """
    return [
        f"{word} is required, but on {device.device} ({device.label}) {reason}"
        for word in wanted
        for device in profile.training_devices
        if (reason := _unmet(device, word))
    ]


def _unmet(device: ProfiledDevice, word: str) -> str:
    for check in device.checks:
        if check.name == "dtypes" and _computes_nothing(_steps(check).get("fp32")):
            return check.sentence
    if word in ("bf16", "fp16", "tf32", "fp8"):
        support = device.support(word)
        return "" if support is Support.NATIVE else f"{word} is {support.value}"
    steps = {check.name: _steps(check) for check in device.checks if check.status is not Status.SKIPPED}
    return works(word, device.verdicts, steps.get("autocast_smoke"), steps.get("train50"))


def _computes_nothing(fp32: StepResult | None) -> bool:
    return fp32 is None or fp32.failure is not None


def _steps(check: CheckResult) -> StepResults:
    """The steps of a check, read back from its numbers."""
    return {name: _step(each) for name, each in check.numbers.items() if isinstance(each, Mapping)}


def _step(numbers: Mapping[str, ProfileJson]) -> StepResult:
    if "class" not in numbers:
        return StepResult(numbers)
    message = str(numbers.get("message") or numbers["class"])
    return StepResult({}, StepFailure(str(numbers["class"]), message, message))


def _speed(verdicts: Mapping[str, DtypeVerdict], dtype: str) -> str:
    speed = verdicts.get(dtype, DtypeVerdict()).speed_vs_fp32
    return f" ({speed:.2g}x of fp32)" if speed is not None else ""
