"""Failures as data: what torch, a driver or the operating system says, which class that is, and what to do.

The first pattern that matches wins. Sentences are for the person in front of the machine.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass

from .step import StepFailure

MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """A class of failures: how it shows in ``TypeName: message``, and what to do."""

    kind: str
    text: str
    sentence: str
    sticky: bool = False


PATTERNS = (
    FailurePattern(
        "no-torch",
        r"ModuleNotFoundError: (?:No module named 'torch'|import of torch halted)",
        "PyTorch is not installed for this Python; install it (https://pytorch.org/get-started/locally) into the "
        "environment that runs precfix, or run `python -m precfix.codemod probe` with the Python that has it",
    ),
    FailurePattern(
        "broken-torch",
        r"^(?:ImportError|ModuleNotFoundError|OSError|AttributeError at import)\b",
        "PyTorch is installed but cannot be imported; reinstall it so that its libraries fit together",
    ),
    FailurePattern(
        "cpu-only-build",
        r"not compiled with (?:CUDA|XPU|MPS) enabled|not linked with support for (?:cuda|xpu|mps)",
        "this PyTorch is a CPU-only build; install the build for your accelerator from "
        "https://pytorch.org/get-started/locally",
    ),
    FailurePattern(
        "no-driver",
        r"Found no NVIDIA driver|HIP driver .*not (?:found|loaded)|libcuda\.so.*cannot open|cudaErrorStubLibrary",
        "no GPU driver was found; install one, or start the container with the GPU (`--gpus all`)",
    ),
    FailurePattern(
        "driver-too-old",
        r"driver on your system is too old|CUDA driver version is insufficient|cudaErrorInsufficientDriver",
        "the GPU driver is older than this PyTorch's CUDA; update the driver, or install a PyTorch that was built for "
        "an older CUDA",
    ),
    FailurePattern(
        "driver-mismatch",
        r"forward compatibility was attempted|Error 80[34]\b|system has unsupported display driver|"
        r"Driver/library version mismatch|cudaErrorCompatNotSupportedOnDevice",
        "driver and CUDA libraries do not fit; reboot after a driver update, and take `cuda-compat` out of "
        "LD_LIBRARY_PATH",
    ),
    FailurePattern(
        "no-kernel-image",
        r"no kernel image is available|invalid device function|NoBinaryForGpu|"
        r"is not compatible with the current PyTorch installation",
        "this PyTorch has no code for this GPU's architecture; install a build that lists it in "
        "torch.cuda.get_arch_list()",
    ),
    FailurePattern(
        "device-busy",
        r"devices?(?:\(s\))? (?:is/are|are|is) busy or unavailable|cudaErrorDevicesUnavailable",
        "another process holds the GPU exclusively; end it, or look for a free device with `nvidia-smi`",
    ),
    FailurePattern(
        "bad-ordinal",
        r"invalid device ordinal|hipErrorInvalidDevice|device ordinal .* out of range|Invalid device id",
        "there is no device with this number; look at CUDA_VISIBLE_DEVICES and at `precfix probe --device all`",
    ),
    FailurePattern(
        "no-device",
        r"no CUDA-capable device|No CUDA GPUs are available|No HIP GPUs are available|no ROCm-capable device|"
        r"No XPU devices are available|cudaErrorNoDevice",
        "the driver shows no GPU to this process; look at CUDA_VISIBLE_DEVICES, the scheduler's request and the "
        "container's options",
    ),
    FailurePattern(
        "device-lost",
        r"uncorrectable ECC|GPU is lost|fallen off the bus|device lost|cudaErrorSystemNotReady|Error 802\b",
        "the GPU itself reports a fault; reset or replace it, or wait until its fabric manager is up, before training",
        sticky=True,
    ),
    FailurePattern(
        "out-of-memory",
        r"OutOfMemoryError|out of memory|MemoryError|can't allocate memory|[Cc]annot allocate memory|"
        r"not enough memory|_STATUS_ALLOC_FAILED|Invalid buffer size|Storage size .* overflow",
        "there is not enough free memory; end other processes on the device, or take smaller batches",
    ),
    FailurePattern(
        "illegal-access",
        r"illegal memory access|misaligned address|illegal instruction was encountered|unspecified launch failure|"
        r"device-side assert|Memory access fault by GPU|cudaErrorLaunchFailure",
        "a GPU kernel went wrong; keep this operation out of the 16-bit regime, and update PyTorch",
        sticky=True,
    ),
    FailurePattern(
        "cublas-failed",
        r"CUBLAS_STATUS_\w+|HIPBLAS_STATUS_\w+|rocblas_status_\w+",
        "the matrix library refuses this dtype or cannot start; use another dtype, and check the CUDA libraries in "
        "LD_LIBRARY_PATH",
    ),
    FailurePattern(
        "cudnn-failed",
        r"CUDNN_STATUS_\w+|cuDNN error|miopenStatus\w+|Unable to find an engine",
        "the convolution library refuses this dtype or cannot start; use another dtype, and check the cuDNN in "
        "LD_LIBRARY_PATH",
    ),
    FailurePattern(
        "no-bfloat16",
        r"does not support bfloat16|BFloat16 is (?:only|not) supported on|bf(?:loat)?16 is only supported on",
        "this device has no bfloat16; use float16 with a GradScaler",
    ),
    FailurePattern(
        "scaler-refuses-bf16",
        r"_amp_foreach_non_finite_check_and_unscale\w*\"? not implemented for 'BFloat16'",
        "GradScaler cannot unscale bfloat16 gradients; bfloat16 needs no scaler, leave it out",
    ),
    FailurePattern(
        "not-implemented",
        r"not implemented for '|^NotImplementedError\b|Could not run 'aten::|Unsupported dtype|unsupported ScalarType|"
        r"Low precision dtypes not supported|must be either float or double|doesn't support tensors of type|"
        r"Expected both inputs to be Half, Float or Double|only supported for half, float",
        "there is no kernel for this dtype; compute it in float32: `x.float()`, or a region of autocast(enabled=False)",
    ),
    FailurePattern(
        "dtype-mismatch",
        r"same (?:dtype|scalar type|type)|expected (?:scalar type|dtype)|Found dtype|should be the same|"
        r"Expected out tensor to have dtype|dtypes? match|source and destination dtypes|mixed dtype",
        "two dtypes meet that this operation does not mix; cast one of them",
    ),
)
_COMPILED = tuple((pattern, re.compile(pattern.text)) for pattern in PATTERNS)

SIGNALS = {
    "SIGSEGV": ("segfault", "PyTorch or a library under it read memory it does not own; update or reinstall PyTorch"),
    "SIGBUS": ("bus-error", "memory went away under PyTorch; look at the size of /dev/shm and at the disk"),
    "SIGILL": (
        "illegal-instruction",
        "PyTorch uses an instruction that this CPU does not have; install a build for this CPU",
    ),
    "SIGFPE": ("arithmetic-error", "a library divided by zero; update PyTorch"),
    "SIGABRT": ("abort", "a library gave up; its last words are in the message"),
    "SIGKILL": ("killed", "the system killed it, most likely for want of memory; look at the memory limit (cgroup)"),
    "SIGTERM": ("terminated", "something asked it to end; look at the scheduler's time and memory limits"),
}
TIMED_OUT = "timeout"


def classify(kind: str, message: str) -> StepFailure:
    """The failure behind an exception: ``kind`` is the name of its type."""
    text = f"{kind}: {message}"
    for pattern, compiled in _COMPILED:
        if compiled.search(text):
            return StepFailure(pattern.kind, pattern.sentence, _short(text), pattern.sticky)
    return StepFailure("error", f"it raised {_short(text, 160)}", _short(text))


def of_exit(code: int, last_words: str = "") -> StepFailure:
    """The failure behind the end of a process: negative for a signal, as `subprocess` has it."""
    words = _short(last_words)
    if code >= 0:
        said = classify("Process", last_words) if last_words else None
        if said is not None and said.kind != "error":
            return said
        return StepFailure("exit", f"the process ended itself with exit code {code} before it was done", words)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    kind, sentence = SIGNALS.get(name, ("signal", "the system ended it"))
    return StepFailure(kind, f"it was killed by {name}: {sentence}", words)


def timed_out(seconds: float) -> StepFailure:
    """The failure of a process that did not come back."""
    return StepFailure(
        TIMED_OUT,
        f"no answer within {seconds:.0f} s, so it was ended; the driver may hang, or the machine be overloaded "
        "(--timeout gives it more time)",
    )


def _short(text: str, size: int = MAX_MESSAGE) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= size else one_line[: size - 3] + "..."
