"""The regime to train in, from what a device can do and what was tried on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..codemod.profiles.profile import Check, Device, Json, Profile, Recommendation, Status, Support, Verdict
from .checks import train50
from .step import Failure, StepResult

Steps = Mapping[str, StepResult]
NEEDS = {"bf16-mixed": "bf16", "bf16-true": "bf16", "fp16-mixed": "fp16"}
"""The dtype that a regime computes in."""


def works(regime: str, verdicts: Mapping[str, Verdict], smoke: Steps | None, training: Steps | None) -> str:
    """An empty text when a regime can be used here, else why not.

    None for a check that was not asked for counts as passed; a step that is missing from one that ran does not.
    """
    dtype = NEEDS.get(regime, "fp32")
    verdict = verdicts.get(dtype, Verdict(Support.NATIVE))
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


def recommend(verdicts: Mapping[str, Verdict], smoke: Steps | None, training: Steps | None) -> Recommendation:
    """bf16-mixed where it is native and works, else fp16-mixed, else fp32; with the reason."""
    bf16, fp16 = (works(regime, verdicts, smoke, training) for regime in ("bf16-mixed", "fp16-mixed"))
    proof = "autocast works" + (" and training converges" if training else "")
    if not bf16:
        return Recommendation("bf16-mixed", f"bf16 is native{_speed(verdicts, 'bf16')}, {proof}; no GradScaler needed")
    if not fp16:
        reason = f"{bf16}; fp16 is native{_speed(verdicts, 'fp16')}, {proof}; use it with a GradScaler"
        return Recommendation("fp16-mixed", reason)
    return Recommendation("fp32", f"{bf16}; {fp16}")


def recommend_together(devices: Sequence[Device]) -> Recommendation:
    """One regime for a machine whose devices train together: the first that each of them was recommended or can do."""
    training = [device for device in devices if device.backend != "cpu"] or list(devices)
    regimes = {device.recommended.regime for device in training if device.recommended.regime}
    if not regimes:
        return Recommendation()
    if len(regimes) == 1:
        return training[0].recommended
    fp16 = all(device.support("fp16") is Support.NATIVE for device in training)
    chosen = "fp16-mixed" if fp16 and "fp32" not in regimes else "fp32"
    said = ", ".join(f"{device.device} {device.recommended.regime}" for device in training)
    return Recommendation(chosen, f"the devices differ ({said}); {chosen} is what all of them do natively")


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


def _unmet(device: Device, word: str) -> str:
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


def _steps(check: Check) -> Steps:
    """The steps of a check, read back from its numbers."""
    return {name: _step(each) for name, each in check.numbers.items() if isinstance(each, Mapping)}


def _step(numbers: Mapping[str, Json]) -> StepResult:
    if "class" not in numbers:
        return StepResult(numbers)
    message = str(numbers.get("message") or numbers["class"])
    return StepResult({}, Failure(str(numbers["class"]), message, message))


def _speed(verdicts: Mapping[str, Verdict], dtype: str) -> str:
    speed = verdicts.get(dtype, Verdict()).speed_vs_fp32
    return f" ({speed:.2g}x of fp32)" if speed is not None else ""
