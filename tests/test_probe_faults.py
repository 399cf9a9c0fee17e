"""Whatever a check does to its process is a result with a class and a sentence; the check goes on behind it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from precfix.codemod.profiles.profile import Status
from precfix.probes.failures import PATTERNS, classify, of_exit
from precfix.probes.runner import CheckLimits, CheckRun, run_check
from precfix.probes.step import Task

from . import probe_faults
from .fixture_cases import REPOSITORY

HERE = f"{__package__}.probe_faults"
POSIX = pytest.mark.skipif(os.name != "posix", reason="signals")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))

    def start(*faults: str, seconds: float = 30.0) -> CheckRun:
        monkeypatch.setenv(probe_faults.FAULTS, ",".join(faults))
        return run_check(HERE, Task("cpu"), CheckLimits(seconds))

    return start


@POSIX
@pytest.mark.parametrize(
    ("fault", "kind", "word"),
    [
        ("segfault", "segfault", "SIGSEGV"),
        ("illegal", "illegal-instruction", "SIGILL"),
        ("abort", "abort", "SIGABRT"),
        ("bus", "bus-error", "SIGBUS"),
        ("killed", "killed", "memory"),
        ("exit", "exit", "exit code 7"),
        ("exit0", "exit", "exit code 0"),
    ],
)
def test_a_step_that_ends_its_process_is_named_and_the_rest_still_runs(run, fault: str, kind: str, word: str) -> None:
    found = run("fine", fault, "pid")
    assert found.failure is None
    assert found.step("fine").numbers == {"value": 1}
    assert found.step("pid").number("pid") is not None
    failed = found.step(fault)
    assert failed.status is Status.CRASHED
    assert failed.failure is not None
    assert failed.failure.kind == kind
    assert word in failed.failure.sentence
    check = found.judged()
    assert (check.status, check.failure) == (Status.CRASHED, kind)


def test_a_crash_keeps_its_last_words(run) -> None:
    failure = run("segfault").step("segfault").failure
    assert failure is not None
    assert "Segmentation fault" in failure.message
    assert "_segfault" in failure.message, "the faulthandler's traceback names the function"


def test_a_hang_is_ended_and_the_rest_still_runs(run) -> None:
    started = time.monotonic()
    found = run("hang", "fine", seconds=3.0)
    assert time.monotonic() - started < 10
    failed = found.step("hang")
    assert failed.status is Status.TIMEOUT
    assert failed.failure is not None
    assert failed.failure.kind == "timeout"
    assert found.step("fine").numbers == {"value": 1}
    assert found.judged().status is Status.TIMEOUT


def test_sys_exit_inside_a_step_ends_the_check_with_its_code(run) -> None:
    found = run("fine", "sys-exit")
    assert found.step("fine").numbers == {"value": 1}
    assert found.judged().status in (Status.CRASHED, Status.FAILED)


def test_noise_on_stdout_and_stderr_breaks_nothing(run) -> None:
    found = run("noisy", "fine")
    assert found.step("noisy").numbers == {"value": 2, "infinite": None}
    assert found.judged().status is Status.OK


def test_an_allocation_that_no_machine_can_serve(run) -> None:
    failed = run("memory").step("memory")
    assert failed.status is Status.FAILED
    assert failed.failure is not None
    assert failed.failure.kind == "out-of-memory"


def test_cuda_on_a_build_without_it(run) -> None:
    torch = pytest.importorskip("torch")
    if torch.version.cuda or torch.version.hip:
        pytest.skip("this PyTorch has CUDA")
    failed = run("cuda").step("cuda")
    assert failed.failure is not None
    assert failed.failure.kind == "cpu-only-build"
    assert "pytorch.org" in failed.failure.sentence


def test_after_a_sticky_cuda_error_the_rest_runs_in_a_fresh_process(run) -> None:
    found = run("pid", "sticky", "last-pid")
    failure = found.step("sticky").failure
    assert failure is not None
    assert failure.kind == "illegal-access"
    assert found.step("pid").number("pid") != found.step("last-pid").number("pid")


def test_a_check_that_always_dies_is_given_up(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "PRECFIX_TEST_DEAD", "1")
    found = run("exit", "exit0", "abort", "segfault", "illegal", "killed", "bus")
    assert all(each.failure is not None for each in found.steps.values())
    assert len(found.steps) == 7


def _with_fake_torch(folder: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> CheckRun:
    (folder / "torch.py").write_text(text, "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(REPOSITORY)]))
    return run_check("autocast_smoke", Task("cpu"), CheckLimits(30.0))


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')", "no-torch", Status.FAILED),
        ("raise ImportError('libcudnn.so.9: cannot open shared object file')", "broken-torch", Status.FAILED),
        ("raise OSError('libtorch_cpu.so: undefined symbol: iJIT_NotifyEvent')", "broken-torch", Status.FAILED),
        ("import ctypes; ctypes.string_at(0)", "segfault", Status.CRASHED),
        ("import os; os._exit(9)", "exit", Status.CRASHED),
    ],
)
def test_a_torch_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, kind: str, status: Status
) -> None:
    check = _with_fake_torch(tmp_path, text, monkeypatch).judged()
    assert (check.failure, check.status) == (kind, status), check


def test_the_users_folder_is_not_imported_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('the wrong torch')", "utf-8")
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv(probe_faults.FAULTS, "fine")
    assert run_check(HERE, Task("cpu"), CheckLimits(30.0)).judged().status is Status.OK


def test_the_child_speaks_json_lines_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    monkeypatch.setenv(probe_faults.FAULTS, "fine")
    done = subprocess.run(
        [sys.executable, "-m", "precfix.probes.child", HERE], capture_output=True, text=True, check=True
    )
    assert [line[:8] for line in done.stdout.splitlines()] == ['{"begin"', '{"end": ', '{"done":']


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", "cpu-only-build"),
        ("RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU", "no-driver"),
        (
            "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU",
            "driver-too-old",
        ),
        (
            "RuntimeError: CUDA error: CUDA driver version is insufficient for CUDA runtime version",
            "driver-too-old",
        ),
        (
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted "
            "on non supported HW",
            "driver-mismatch",
        ),
        (
            "torch.AcceleratorError: CUDA error: no kernel image is available for execution on the device",
            "no-kernel-image",
        ),
        ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "device-busy"),
        ("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable", "device-busy"),
        ("RuntimeError: CUDA error: invalid device ordinal", "bad-ordinal"),
        ("RuntimeError: No CUDA GPUs are available", "no-device"),
        ("OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB", "out-of-memory"),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you tried",
            "out-of-memory",
        ),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_NOT_SUPPORTED when calling `cublasGemmEx(...)`", "cublas-failed"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "device-lost"),
        ("TypeError: BFloat16 is not supported on MPS", "no-bfloat16"),
        (
            "NotImplementedError: \"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16'",
            "scaler-refuses-bf16",
        ),
        ("RuntimeError: \"avg_pool3d_out_frame\" not implemented for 'Half'", "not-implemented"),
        ("RuntimeError: linalg.inv: Low precision dtypes not supported. Got BFloat16", "not-implemented"),
        ("RuntimeError: expected scalar type Float but found BFloat16", "dtype-mismatch"),
        ("RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half", "dtype-mismatch"),
        ("RuntimeError: something new", "error"),
    ],
)
def test_messages_find_their_class(message: str, kind: str) -> None:
    name, _, text = message.partition(": ")
    found = classify(name, text)
    assert found.kind == kind
    assert found.sentence


def test_sentences_say_what_to_do_in_one_line() -> None:
    assert all("\n" not in pattern.sentence and len(pattern.sentence) < 260 for pattern in PATTERNS)
    assert len({pattern.kind for pattern in PATTERNS}) == len(PATTERNS)


def test_an_unknown_signal_has_a_class() -> None:
    assert of_exit(-62).kind == "signal"
    assert of_exit(-250).kind == "signal"
