"""Torch, its builds, drivers and devices: what is there, before anything is computed."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ...codemod.profiles.profile import ProfileJson
from ..step import Judgment, Numbers, ProbeStep, StepResult, Task

CPU_FEATURES = ("avx2", "avx512_f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16", "bf16", "fp16", "sve_bf16")
"""The instruction sets that decide about 16 bits, as torch.cpu.get_capabilities() names them."""
CPUINFO_NAMES = {"avx512f": "avx512_f", "asimdhp": "fp16", "svebf16": "sve_bf16"}


def steps(task: Task) -> Iterator[ProbeStep]:
    """One step for each family of devices, so that a driver that crashes hides no other device."""
    yield "torch", _torch
    yield "hardware", _hardware
    yield "cpu", _cpu
    yield "cuda", _cuda
    yield "xpu", _xpu
    yield "mps", _mps


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    """Whether torch could be imported; what the devices say for themselves is judged in devices.py."""
    torch = results.get("torch", StepResult())
    if torch.failure is not None:
        return Judgment(False, torch.failure.sentence, torch.failure.kind)
    return Judgment(True, f"PyTorch {torch.text('version')}, Python {torch.text('python')}")


def _torch() -> Numbers:
    import torch

    return {
        "version": str(torch.__version__),
        "python": platform.python_version(),
        "executable": sys.executable,
        "cuda": torch.version.cuda or "",
        "hip": getattr(torch.version, "hip", None) or "",
        "numpy": _numpy_version(),
        "debug": bool(torch.version.debug),
    }


def _numpy_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("numpy")
    except PackageNotFoundError:
        return ""


def _cpu() -> Numbers:
    return {
        "name": _cpu_name(),
        "features": list[ProfileJson](_cpu_features()),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        "memory_bytes": _memory(),
        "architecture": platform.machine(),
    }


def _cpu_features() -> list[str]:
    """Those of CPU_FEATURES that this CPU has: torch's own list, or the kernel's before torch 2.13 had one."""
    import torch

    ask = getattr(torch.cpu, "get_capabilities", None)
    if ask is not None:
        found = ask()
        return [name for name in CPU_FEATURES if found.get(name)]
    flags = {CPUINFO_NAMES.get(flag, flag) for flag in _cpuinfo("flags").split() + _cpuinfo("Features").split()}
    return [name for name in CPU_FEATURES if name in flags]


def _cpu_name() -> str:
    return _cpuinfo("model name") or platform.processor() or platform.machine()


def _cpuinfo(key: str) -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return ""
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == key), "")


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _cuda() -> Numbers:
    """NVIDIA and AMD alike: torch calls both ``cuda``."""
    import torch

    torch.cuda.init()  # type: ignore[no-untyped-call]  # unlike is_available() it says why not
    return {
        "architectures": list[ProfileJson](torch.cuda.get_arch_list()),
        "cudnn": str(_cudnn_version() or ""),
        "devices": [_cuda_device(index) for index in range(torch.cuda.device_count())],
    }


def _cudnn_version() -> object:
    import torch

    return torch.backends.cudnn.version()  # type: ignore[no-untyped-call]


def _cuda_device(index: int) -> ProfileJson:
    import torch

    properties = torch.cuda.get_device_properties(index)
    arch = str(getattr(properties, "gcnArchName", "")).partition(":")[0]
    capability = arch if getattr(torch.version, "hip", None) else f"{properties.major}.{properties.minor}"
    return {
        "name": str(properties.name),
        "capability": capability,
        "memory_bytes": int(properties.total_memory),
        "multiprocessors": int(properties.multi_processor_count),
        "claims_bf16": _says(lambda: _claims_bf16(index)),
    }


def _claims_bf16(index: int) -> bool:
    import torch

    with torch.cuda.device(index):
        return bool(torch.cuda.is_bf16_supported())


def _says(ask: Callable[[], bool]) -> bool | None:
    """What an ``is_..._supported`` function claims; evidence at most, since it counts emulation."""
    try:
        return bool(ask())
    except (RuntimeError, AssertionError, TypeError, AttributeError):
        return None


def _hardware() -> Numbers:
    """What the system knows of GPUs, whatever torch can do with them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", os.environ.get("HIP_VISIBLE_DEVICES"))
    return {"gpu": _gpu(), "driver": _driver(), "visible": visible}


def _driver() -> str:
    try:
        words = Path("/proc/driver/nvidia/version").read_text("utf-8", "replace").split()
    except OSError:
        return ""
    return next((word for word in words if word[:1].isdigit() and word.count(".") >= 1), "")


def _gpu() -> str:
    if Path("/proc/driver/nvidia/gpus").is_dir() or Path("/dev/nvidia0").exists() or Path("/dev/dxg").exists():
        return "nvidia"
    return "amd" if Path("/dev/kfd").exists() else ""


def _xpu() -> Numbers:
    import torch

    module = getattr(torch, "xpu", None)
    if module is None or not module.is_available():
        return {"devices": []}
    return {"devices": [_xpu_device(index) for index in range(module.device_count())]}


def _xpu_device(index: int) -> ProfileJson:
    import torch

    properties = torch.xpu.get_device_properties(index)
    return {
        "name": str(properties.name),
        "capability": "",
        "memory_bytes": int(properties.total_memory),
        "claims_bf16": _says(lambda: torch.xpu.is_bf16_supported(including_emulation=False)),
    }


def _mps() -> Numbers:
    import torch

    if not torch.backends.mps.is_available():
        return {"devices": []}
    chip = _sysctl("machdep.cpu.brand_string")
    memory = int(torch.mps.recommended_max_memory()) if hasattr(torch.mps, "recommended_max_memory") else None
    return {"devices": [{"name": chip, "capability": _generation(chip), "memory_bytes": memory}]}


def _generation(chip: str) -> str:
    """``M2`` of ``Apple M2 Pro``."""
    return next((word for word in chip.split() if word[:1] == "M" and word[1:].isdigit()), "")


def _sysctl(name: str) -> str:
    import subprocess

    try:
        done = subprocess.run(["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, timeout=5, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
