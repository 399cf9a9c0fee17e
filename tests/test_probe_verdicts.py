"""What is concluded from capability and numbers: verdicts, the regime, requirements. Pure; no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from precfix.codemod.profiles.profile import (
    CheckResult,
    DtypeVerdict,
    Profile,
    ProfiledDevice,
    Recommendation,
    Status,
    Support,
)
from precfix.codemod.report.text import STYLES, plain
from precfix.probes.checks import matmul_error, op_matrix, throughput, train50
from precfix.probes.devices import FoundDevice
from precfix.probes.recommending import common_regime, recommend, unmet
from precfix.probes.screen import verdict_lines
from precfix.probes.step import StepFailure, StepResult, Task
from precfix.probes.verdicts import verdicts

COMPUTES = {name: StepResult({"exact": True}) for name in ("fp32", "bf16", "fp16", "fp8")}
NO_FP8 = {**COMPUTES, "fp8": StepResult({}, StepFailure("not-implemented", "no kernel", "RuntimeError: needs 8.9"))}


def speeds(**ratios: float) -> Mapping[str, StepResult]:
    return {
        "fp32": StepResult({"matmul_1024": 10.0}),
        **{name: StepResult({"matmul_1024": 10.0 * ratio, "ratio_1024": ratio}) for name, ratio in ratios.items()},
    }


def gpu(capability: str, backend: str = "cuda", claims: bool | None = True) -> FoundDevice:
    return FoundDevice(
        f"{'cuda' if backend == 'rocm' else backend}:0", backend, "a GPU", capability, 1 << 34, (), claims
    )


@pytest.mark.parametrize(
    ("found", "dtypes", "measured", "expected"),
    [
        # T4: torch says bf16 is supported, and it is slower than fp32
        (gpu("7.5"), NO_FP8, speeds(bf16=0.4, fp16=5.0), "emulated native absent absent"),
        # and it stays emulated where the conversion happens to be cheap
        (gpu("7.5"), NO_FP8, speeds(bf16=1.6, fp16=5.0), "emulated native absent absent"),
        (gpu("7.0"), NO_FP8, speeds(bf16=0.6, fp16=6.0), "emulated native absent absent"),
        (gpu("8.0"), NO_FP8, speeds(bf16=12.0, fp16=12.0, tf32=6.0), "native native native absent"),
        (gpu("9.0"), COMPUTES, speeds(bf16=14.0, fp16=14.0, tf32=8.0), "native native native native"),
        (gpu("12.0"), COMPUTES, speeds(bf16=4.0, fp16=4.0, tf32=2.0), "native native native native"),
        (gpu("10.3"), COMPUTES, {}, "native native native native"),
        # hardware that should have it, and is slower at it than at fp32
        (gpu("8.6"), NO_FP8, speeds(bf16=0.5, fp16=3.0, tf32=2.0), "emulated native native absent"),
        (gpu("6.1"), NO_FP8, speeds(bf16=0.5, fp16=0.02), "emulated emulated absent absent"),
        (gpu("6.0"), NO_FP8, speeds(bf16=0.5, fp16=1.8), "emulated native absent absent"),
        (gpu("gfx942", "rocm"), COMPUTES, speeds(bf16=6.0, fp16=6.0), "native native native native"),
        (gpu("gfx906", "rocm"), NO_FP8, speeds(bf16=0.5, fp16=1.9), "emulated native absent absent"),
        (gpu("gfx90a", "rocm"), NO_FP8, speeds(bf16=4.0, fp16=4.0), "native native absent absent"),
        (gpu("M2", "mps", None), NO_FP8, speeds(bf16=0.9, fp16=1.1), "emulated native absent absent"),
        (gpu("M3", "mps", None), NO_FP8, speeds(bf16=1.1, fp16=1.1), "native native absent absent"),
        (gpu("", "xpu", True), NO_FP8, speeds(bf16=3.0, fp16=3.0), "native native absent absent"),
        (
            FoundDevice("cpu", "cpu", "a CPU", "", None, ("avx2", "avx512_bf16")),
            COMPUTES,
            speeds(bf16=3.9, fp16=0.01),
            "native emulated absent emulated",
        ),
        (
            FoundDevice("cpu", "cpu", "a CPU", "", None, ("avx2",)),
            NO_FP8,
            speeds(bf16=1.1, fp16=0.01),
            "emulated emulated absent absent",
        ),
        (FoundDevice("cpu", "cpu", "a CPU"), NO_FP8, speeds(bf16=2.0, fp16=0.5), "native emulated absent absent"),
        (FoundDevice("cpu", "cpu", "a CPU"), NO_FP8, {}, "unknown unknown absent absent"),
    ],
)
def test_verdicts(
    found: FoundDevice, dtypes: Mapping[str, StepResult], measured: Mapping[str, StepResult], expected: str
) -> None:
    decided = verdicts(found, dtypes, measured)
    assert " ".join(decided[name].support.value for name in ("bf16", "fp16", "tf32", "fp8")) == expected
    assert all(verdict.evidence for verdict in decided.values())


def test_the_claim_of_torch_is_told_where_it_misleads() -> None:
    t4 = verdicts(gpu("7.5"), NO_FP8, speeds(bf16=0.4, fp16=5.0))["bf16"]
    assert any("counts emulation" in each for each in t4.evidence)
    assert t4.speed_vs_fp32 == 0.4
    a100 = verdicts(gpu("8.0"), NO_FP8, speeds(bf16=9.0))["bf16"]
    assert not any("counts emulation" in each for each in a100.evidence)


def test_a_dtype_that_raises_is_absent_whatever_the_capability() -> None:
    broken = {**NO_FP8, "bf16": StepResult({}, StepFailure("cublas-failed", "the library refuses it", "CUBLAS"))}
    assert verdicts(gpu("8.0"), broken, speeds(fp16=5.0))["bf16"].support is Support.ABSENT


@pytest.mark.parametrize(("scatter", "expected"), [(1.1, Support.EMULATED), (2.0, Support.UNKNOWN)])
def test_slow_products_of_capable_hardware_are_emulation_only_where_times_do_not_scatter(
    scatter: float, expected: Support
) -> None:
    found = FoundDevice("cpu", "cpu", "a CPU", "", None, ("avx512_bf16",))
    measured = {**speeds(), "bf16": StepResult({"matmul_1024": 1.0, "ratio_1024": 0.5, "scatter_1024": scatter})}
    verdict = verdicts(found, COMPUTES, measured)["bf16"]
    assert verdict.support is expected
    assert any("measure again" in each for each in verdict.evidence) is (expected is Support.UNKNOWN)


def test_the_ratio_is_taken_at_the_largest_size() -> None:
    assert throughput.ratio({"fp16": StepResult({"matmul_128": 9.0})}, "fp16") is None
    assert throughput.ratio({}, "bf16") is None
    turns = StepResult({"matmul_128": 9.0, "ratio_128": 3.0, "matmul_1024": 1.0, "ratio_1024": 2.0})
    assert throughput.ratio({"fp32": StepResult({"matmul_1024": 10.0}), "bf16": turns}, "bf16") == 2.0


# --- the regime -------------------------------------------------------------------------------------------------------

FINE = {name: StepResult({"finite": True, "gradients_finite": True}) for name in ("fp32", "bf16", "fp16")}
LEARNT = {name: StepResult({"first_loss": 1.0, "last_loss": 0.1}) for name in train50.REGIMES}


def supports(bf16: Support, fp16: Support) -> Mapping[str, DtypeVerdict]:
    return {"bf16": DtypeVerdict(bf16, (), 0.4), "fp16": DtypeVerdict(fp16, (), 4.0)}


@pytest.mark.parametrize(
    ("bf16", "fp16", "regime"),
    [
        (Support.NATIVE, Support.NATIVE, "bf16-mixed"),
        (Support.EMULATED, Support.NATIVE, "fp16-mixed"),
        (Support.ABSENT, Support.NATIVE, "fp16-mixed"),
        (Support.EMULATED, Support.EMULATED, "fp32"),
        (Support.UNKNOWN, Support.UNKNOWN, "fp32"),
    ],
)
def test_recommended_regime(bf16: Support, fp16: Support, regime: str) -> None:
    assert recommend(supports(bf16, fp16), FINE, LEARNT).regime == regime


def test_the_reason_for_a_t4_is_the_sentence_people_need() -> None:
    reason = recommend(supports(Support.EMULATED, Support.NATIVE), FINE, LEARNT).reason
    assert "bf16 is emulated (0.4x of fp32)" in reason
    assert "with a GradScaler" in reason


def test_a_regime_that_was_tried_and_failed_is_not_recommended() -> None:
    both = supports(Support.NATIVE, Support.NATIVE)
    smoke = {**FINE, "bf16": StepResult({}, StepFailure("cudnn-failed", "the library refuses", ""))}
    assert recommend(both, smoke, LEARNT).regime == "fp16-mixed"
    stuck = {**LEARNT, "bf16-mixed": StepResult({"first_loss": 1.0, "last_loss": None})}
    assert recommend(both, FINE, stuck).regime == "fp16-mixed"


def device(name: str, regime: str, backend: str = "cuda", **kinds: Support) -> ProfiledDevice:
    known = {dtype: DtypeVerdict(support) for dtype, support in kinds.items()}
    return ProfiledDevice(name, backend, "a GPU", "8.0", None, known, Recommendation(regime, "because"))


def test_a_check_that_died_before_its_step_proves_nothing() -> None:
    both = supports(Support.NATIVE, Support.NATIVE)
    assert recommend(both, {}, None).regime == "fp32"
    assert recommend(both, None, None).regime == "bf16-mixed"
    dead = CheckResult("autocast_smoke", Status.CRASHED, "segfault")
    alive = CheckResult("autocast_smoke", Status.OK, numbers={"bf16": {"finite": True, "gradients_finite": True}})
    for check, met in ((dead, False), (alive, True)):
        one = replace(device("cuda:0", "fp32", bf16=Support.NATIVE), checks=(check,))
        assert (unmet(Profile(devices=(one,)), ["bf16-mixed"]) == []) is met


def test_a_device_that_computes_nothing_meets_nothing() -> None:
    broken = CheckResult(
        "dtypes", Status.FAILED, "no-kernel-image", "it does not compute", numbers={"fp32": {"class": "x"}}
    )
    one = replace(device("cuda:0", "", bf16=Support.NATIVE), checks=(broken,))
    assert len(unmet(Profile(devices=(one,)), ["fp32", "bf16", "bf16-mixed"])) == 3


def test_devices_that_differ_get_what_all_of_them_do() -> None:
    a100 = device("cuda:0", "bf16-mixed", bf16=Support.NATIVE, fp16=Support.NATIVE)
    t4 = device("cuda:1", "fp16-mixed", bf16=Support.EMULATED, fp16=Support.NATIVE)
    cpu = device("cpu", "fp32", "cpu", bf16=Support.EMULATED, fp16=Support.EMULATED)
    assert common_regime([a100, t4]).regime == "fp16-mixed"
    assert common_regime([a100, t4]).reason == "fp16 is native on every device; bf16 is emulated on cuda:1 (a GPU)"
    assert common_regime([a100, cpu]).regime == "fp32"
    assert common_regime([cpu]).regime == "fp32"
    assert common_regime([]).regime == ""


def test_requirements_hold_for_every_training_device_and_not_for_the_cpu_beside_them() -> None:
    a100 = device("cuda:0", "bf16-mixed", bf16=Support.NATIVE, fp16=Support.NATIVE)
    t4 = device("cuda:1", "fp16-mixed", bf16=Support.EMULATED, fp16=Support.NATIVE)
    cpu = device("cpu", "fp32", "cpu", bf16=Support.EMULATED, fp16=Support.EMULATED)
    assert unmet(Profile(devices=(a100, cpu)), ["bf16", "fp16", "bf16-mixed", "fp32"]) == []
    assert len(unmet(Profile(devices=(a100, t4, cpu)), ["bf16", "fp16"])) == 1
    assert "cuda:1" in unmet(Profile(devices=(a100, t4)), ["bf16-mixed"])[0]
    assert len(unmet(Profile(devices=(cpu,)), ["bf16"])) == 1


# --- judging and showing ----------------------------------------------------------------------------------------------


def test_sixteen_bit_sums_are_out_of_bounds() -> None:
    fine = {name: StepResult({"violations": 0.0, "tf32_like": False}) for name in ("fp32", "bf16", "fp16")}
    assert matmul_error.judge(fine, Task("cuda:0")).ok
    bad = {**fine, "bf16": StepResult({"violations": 0.3})}
    judged = matmul_error.judge(bad, Task("cuda:0"))
    assert not judged.ok
    assert "bf16" in judged.sentence
    tf32 = {**fine, "fp32": StepResult({"violations": 0.9, "tf32_like": True})}
    assert "TF32" in matmul_error.judge(tf32, Task("cuda:0")).sentence
    assert matmul_error.judge(tf32, Task("cuda:0")).ok


def test_the_matrix_keeps_what_raised_and_what_crashed() -> None:
    results = {
        "bf16/softmax": StepResult({"backward": "ok", "output": "bfloat16"}),
        "bf16/fft": StepResult(
            {}, StepFailure("not-implemented", "no kernel", "RuntimeError: Unsupported dtype BFloat16")
        ),
    }
    rows = op_matrix.rows(results)
    assert [(row.op, row.forward, row.backward) for row in rows] == [
        ("softmax", "ok", "ok"),
        ("fft", "not-implemented", "-"),
    ]
    assert op_matrix.judge(results, Task("cpu")).ok


def test_like_devices_are_shown_once_and_every_style_exists() -> None:
    same = tuple(device(f"cuda:{index}", "bf16-mixed", bf16=Support.NATIVE) for index in range(8))
    profile = Profile(devices=same, recommended=Recommendation("bf16-mixed", "because"))
    lines = list(verdict_lines(profile))
    assert {style for line in lines for _, style in line} <= set(STYLES)
    text = plain(lines)
    assert "cuda:0 to cuda:7" in text
    assert text.count("native") == 1
    assert text.count("\n") < 12
