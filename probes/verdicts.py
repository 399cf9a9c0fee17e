"""Native, emulated or absent: decided by capability *and* measured speed, never by what torch claims.

``torch.cuda.is_bf16_supported()`` is True wherever a bfloat16 tensor can be made, so on a T4 too, whose bfloat16 is
converted to float32 and back.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..codemod.profiles.profile import DtypeVerdict, Support
from .checks.throughput import ACCELERATED, EMULATED, is_noisy, ratio
from .devices import FoundDevice
from .step import StepResult

ResultsByStep = Mapping[str, StepResult]
BF16_GFX = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")
"""AMD architectures with bfloat16 matrix instructions; a prefix stands for all that begin with it."""
FP16_GFX = ("gfx90", "gfx94", "gfx95", "gfx10", "gfx11", "gfx12")
TF32_GFX = ("gfx94", "gfx95")
FP8_GFX = ("gfx94", "gfx95", "gfx12")
CPU_BF16 = frozenset({"avx512_bf16", "amx_bf16", "bf16", "sve_bf16"})
CPU_FP16 = frozenset({"avx512_fp16", "amx_fp16", "fp16"})
MPS_WITHOUT_BF16 = frozenset({"M1", "M2"})


def verdicts(found: FoundDevice, dtypes: ResultsByStep, throughput: ResultsByStep) -> Mapping[str, DtypeVerdict]:
    """The verdict for each dtype. The steps are those of the checks ``dtypes`` and ``throughput``; may be empty."""
    return {
        "bf16": _sixteen(found, "bf16", dtypes, throughput),
        "fp16": _sixteen(found, "fp16", dtypes, throughput),
        "tf32": _tf32(found, throughput),
        "fp8": _fp8(found, dtypes),
    }


def _sixteen(found: FoundDevice, name: str, dtypes: ResultsByStep, throughput: ResultsByStep) -> DtypeVerdict:
    tried = dtypes.get(name)
    capable, why = (_bf16_capability if name == "bf16" else _fp16_capability)(found)
    if tried is not None and tried.failure is not None:
        return DtypeVerdict(Support.ABSENT, (f"{name} products fail: {tried.failure.sentence}", why))
    speed = ratio(throughput, name)
    rounded = round(speed, 4) if speed is not None else None
    evidence = [_measured(speed), why]
    noisy = is_noisy(throughput, name)
    if noisy:
        evidence.append("the times scatter: something else runs on this machine, measure again when it is idle")
    if name == "bf16" and found.claims_bf16 and not capable:
        evidence.append("torch.cuda.is_bf16_supported() is True, because it counts emulation")
    return DtypeVerdict(_decided(capable, speed, noisy=noisy), tuple(each for each in evidence if each), rounded)


def _decided(capable: bool | None, speed: float | None, *, noisy: bool) -> Support:
    """Hardware that lacks the dtype emulates it, however fast; hardware that claims it must not be slower at it.

    What is slow only in times that scatter is not known.
    """
    if capable is None:
        if speed is None or (noisy and speed < ACCELERATED):
            return Support.UNKNOWN
        return Support.NATIVE if speed >= ACCELERATED else Support.EMULATED
    if capable and speed is not None and speed < EMULATED:
        return Support.UNKNOWN if noisy else Support.EMULATED
    return Support.NATIVE if capable else Support.EMULATED


def _measured(speed: float | None) -> str:
    if speed is None:
        return "its speed was not measured"
    return f"matrix products run at {speed:.2g}x the speed of fp32"


def _bf16_capability(found: FoundDevice) -> tuple[bool | None, str]:
    if found.backend == "cuda":
        return _cuda_at_least(found, 8.0, "bfloat16 arithmetic begins at 8.0")
    if found.backend == "rocm":
        return _gfx(found, BF16_GFX, "bfloat16 matrix instructions")
    if found.backend == "cpu":
        return _cpu(found, CPU_BF16, "bfloat16")
    if found.backend == "mps" and found.capability:
        has = found.capability not in MPS_WITHOUT_BF16
        return has, f"the {found.capability} has {'' if has else 'no '}bfloat16 arithmetic"
    if found.backend == "xpu" and found.claims_bf16 is not None:
        return found.claims_bf16, f"the driver says bfloat16 conversions: {'yes' if found.claims_bf16 else 'no'}"
    return None, "its capability is unknown"


def _fp16_capability(found: FoundDevice) -> tuple[bool | None, str]:
    if found.backend == "cuda":
        return _cuda_at_least(found, 7.0, "fast float16 begins at 7.0", {"5.3", "6.0", "6.2"})
    if found.backend == "rocm":
        return _gfx(found, FP16_GFX, "fast float16")
    if found.backend == "cpu":
        return _cpu(found, CPU_FP16, "float16")
    if found.backend in ("mps", "xpu"):
        return True, "every device of this kind has float16 arithmetic"
    return None, "its capability is unknown"


def _tf32(found: FoundDevice, throughput: ResultsByStep) -> DtypeVerdict:
    if found.backend == "cuda":
        capable, why = _cuda_at_least(found, 8.0, "TF32 begins at 8.0")
    elif found.backend == "rocm":
        capable, why = _gfx(found, TF32_GFX, "TF32")
    else:
        return DtypeVerdict(Support.ABSENT, ("TF32 is a mode of NVIDIA GPUs from 8.0 and of some AMD ones",))
    speed = ratio(throughput, "tf32") if capable else None
    evidence = (why, *([_measured(speed)] if capable else []))
    if capable is None:
        return DtypeVerdict(Support.UNKNOWN, evidence)
    return DtypeVerdict(Support.NATIVE if capable else Support.ABSENT, evidence, round(speed, 4) if speed else None)


def _fp8(found: FoundDevice, dtypes: ResultsByStep) -> DtypeVerdict:
    tried = dtypes.get("fp8")
    if found.backend == "cuda":
        capable, why = _cuda_at_least(found, 8.9, "fp8 arithmetic begins at 8.9")
    elif found.backend == "rocm":
        capable, why = _gfx(found, FP8_GFX, "fp8")
    else:
        capable, why = False, f"a {found.backend} device has no fp8 arithmetic that PyTorch trains with"
    if tried is None:
        return DtypeVerdict(Support.UNKNOWN if capable else Support.ABSENT, (why, "a scaled product was not tried"))
    if tried.failure is not None:
        return DtypeVerdict(Support.ABSENT, (why, f"a scaled product fails: {tried.failure.message}"))
    return DtypeVerdict(Support.NATIVE if capable else Support.EMULATED, (why, "a scaled product works"))


def _cuda_at_least(
    found: FoundDevice, least: float, rule: str, also: frozenset[str] | set[str] = frozenset()
) -> tuple[bool | None, str]:
    try:
        capability = tuple(int(part) for part in found.capability.split("."))
    except ValueError:
        return None, "its compute capability is unknown"
    wanted = tuple(int(part) for part in str(least).split("."))
    return capability >= wanted or found.capability in also, f"compute capability {found.capability}: {rule}"


def _gfx(found: FoundDevice, known: tuple[str, ...], what: str) -> tuple[bool | None, str]:
    if not found.capability:
        return None, "its architecture is unknown"
    has = found.capability.startswith(known)
    return has, f"{found.capability} {'has' if has else 'is not known to have'} {what}"


def _cpu(found: FoundDevice, wanted: frozenset[str], what: str) -> tuple[bool | None, str]:
    if not found.features:
        return None, "its instruction sets are unknown"
    has = sorted(wanted.intersection(found.features))
    return bool(has), f"this CPU has {', '.join(has) if has else 'no instructions'} for {what}"
