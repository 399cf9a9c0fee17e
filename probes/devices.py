"""What the environment check found, as a profile says it: machine, torch, devices, and what is wrong with drivers."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass

from ..codemod.profiles.profile import CheckResult, Machine, ProfileJson, Status, Torch
from .runner import CheckRun
from .step import StepFailure, StepResult

GPU_NAMES = {"nvidia": "an NVIDIA", "amd": "an AMD"}


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device that torch lists."""

    device: str
    backend: str
    name: str
    capability: str = ""
    memory_bytes: int | None = None
    features: tuple[str, ...] = ()
    """Of a CPU: its instruction sets for 16 bits."""
    claims_bf16: bool | None = None
    """What torch's own is_bf16_supported() says."""


def machine_of(run: CheckRun) -> Machine:
    """The computer around the devices."""
    cpu = run.step("cpu")
    return Machine(
        host=platform.node(),
        system=platform.system(),
        release=platform.release(),
        architecture=platform.machine(),
        cpu=cpu.text("name"),
        cpu_features=_texts(cpu, "features"),
        cores=_whole(cpu.numbers.get("cores")),
        memory_bytes=_whole(cpu.numbers.get("memory_bytes")),
        python=run.step("torch").text("python") or platform.python_version(),
    )


def torch_of(run: CheckRun) -> Torch:
    """The torch that was probed."""
    torch, cuda = run.step("torch"), run.step("cuda")
    return Torch(
        version=torch.text("version"),
        cuda=torch.text("cuda"),
        rocm=torch.text("hip"),
        driver=run.step("hardware").text("driver"),
        cudnn=cuda.text("cudnn"),
        architectures=_texts(cuda, "architectures"),
    )


def found_devices(run: CheckRun) -> tuple[FoundDevice, ...]:
    """Every device that torch lists, accelerators first; empty without torch."""
    if run.failure is not None or run.step("torch").failure is not None:
        return ()
    rocm = bool(run.step("torch").text("hip"))
    found = [
        _found(f"{kind}:{index}" if kind != "mps" else kind, "rocm" if rocm and kind == "cuda" else kind, each)
        for kind in ("cuda", "xpu", "mps")
        for index, each in enumerate(_objects(run.step(kind)))
    ]
    cpu = run.step("cpu")
    name, features, memory = cpu.text("name") or "CPU", _texts(cpu, "features"), _whole(cpu.numbers.get("memory_bytes"))
    return (*found, FoundDevice("cpu", "cpu", name, "", memory, features))


def environment_checks(run: CheckRun, found: tuple[FoundDevice, ...]) -> tuple[CheckResult, ...]:
    """Torch itself, and for each family of devices that could not be asked, why and what to do."""
    checks = [run.judged()]
    accelerators = [each for each in found if each.device != "cpu"]
    for kind in ("cuda", "xpu", "mps"):
        failure = run.step(kind).failure
        if failure is not None and not (failure.kind == "cpu-only-build" and accelerators):
            checks.append(_family(kind, failure, run))
    hidden = run.step("hardware").numbers.get("visible")
    if found and not accelerators and hidden in ("", "-1", "none", "NoDevFiles"):
        sentence = "CUDA_VISIBLE_DEVICES hides every GPU from this process; unset it to use them"
        checks.append(CheckResult("visibility", Status.FAILED, "no-device", sentence))
    return tuple(checks)


def missing_device(device: str, run: CheckRun, found: tuple[FoundDevice, ...]) -> CheckResult:
    """Why a device that was asked for is not among those found."""
    kind = device.partition(":")[0]
    same = [each.device for each in found if each.device.partition(":")[0] == kind]
    if same:
        sentence = f"there is no {device} here; torch lists {', '.join(same)}"
        return CheckResult(device, Status.FAILED, "bad-ordinal", sentence)
    failure = run.step(kind).failure
    if failure is not None:
        return CheckResult(device, Status.FAILED, failure.kind, f"{device} cannot be used: {failure.sentence}")
    sentence = f"torch lists no {kind} device here; look at `precfix probe --device all`"
    return CheckResult(device, Status.FAILED, "no-device", sentence)


def _family(kind: str, failure: StepFailure, run: CheckRun) -> CheckResult:
    gpu = run.step("hardware").text("gpu")
    numbers: Mapping[str, ProfileJson] = {"message": failure.message}
    if kind == "cuda" and failure.kind in ("cpu-only-build", "no-driver", "no-device") and not gpu:
        why = "a CPU-only build of PyTorch" if failure.kind == "cpu-only-build" else "no driver"
        sentence = f"no GPU was seen on this machine ({why}); the verdict is about the CPU"
        return CheckResult(kind, Status.SKIPPED, failure.kind, sentence, 0.0, numbers)
    seen = f"this machine has {GPU_NAMES[gpu]} GPU, but " if kind == "cuda" and gpu else f"{kind}: "
    status = run.step(kind).status
    return CheckResult(kind, status, failure.kind, f"{seen}{failure.sentence}", 0.0, numbers)


def _found(device: str, backend: str, each: Mapping[str, ProfileJson]) -> FoundDevice:
    claims = each.get("claims_bf16")
    return FoundDevice(
        device,
        backend,
        str(each.get("name") or device),
        str(each.get("capability") or ""),
        _whole(each.get("memory_bytes")),
        (),
        claims if isinstance(claims, bool) else None,
    )


def _objects(result: StepResult) -> list[Mapping[str, ProfileJson]]:
    listed = result.numbers.get("devices")
    return [each for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []


def _texts(result: StepResult, name: str) -> tuple[str, ...]:
    listed = result.numbers.get(name)
    return tuple(str(each) for each in listed) if isinstance(listed, list) else ()


def _whole(value: ProfileJson) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
