"""`precfix probe` as a person or a job script runs it, on this machine and on machines that lack something."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from precfix.codemod.profiles.profile import Status
from precfix.codemod.profiles.profile_file import load
from precfix.probes.devices import environment_checks, found_devices, missing_device
from precfix.probes.runner import CheckLimits, CheckRun, run_check
from precfix.probes.step import Task

from . import warm
from .fixture_cases import REPOSITORY
from .warm_torch import python

Done = subprocess.CompletedProcess[str]


def precfix(*arguments: str, path: str = "", cwd: Path | None = None) -> Done:
    environment = {"PYTHONPATH": path, **({} if path else {warm.PYTHON: python()})}
    return warm.text(warm.precfix("probe", *arguments, environment=environment, cwd=cwd))


# --- this machine -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """One quick probe of the CPU, saved and printed as JSON, with a requirement that a CPU never meets."""
    pytest.importorskip("torch")
    saved = tmp_path_factory.mktemp("probe") / "profile.json"
    return precfix("--device", "cpu", "--quick", "--json", "--save", str(saved), "--require", "tf32"), saved


def device_of(done: Done) -> dict[str, Any]:
    device: dict[str, Any] = json.loads(done.stdout)["devices"][0]
    return device


def test_the_json_is_the_saved_profile_and_nothing_else(quick: tuple[Done, Path]) -> None:
    done, saved = quick
    assert json.loads(done.stdout) == json.loads(saved.read_text("utf-8"))
    profile = load(saved)
    assert profile.mode == "quick"
    assert [device.device for device in profile.devices] == ["cpu"]
    assert profile.recommended.regime in ("fp32", "bf16-mixed", "fp16-mixed")
    assert profile.recommended.reason


def test_every_check_passes_here_within_its_bounds(quick: tuple[Done, Path]) -> None:
    checks = {check["name"]: check for check in device_of(quick[0])["checks"]}
    assert list(checks) == ["dtypes", "autocast_smoke", "matmul_error", "known_failures", "throughput"]
    assert {name: check["status"] for name, check in checks.items() if check["status"] != "ok"} == {}
    errors = checks["matmul_error"]["numbers"]
    assert errors["fp32"]["max_error_of_magnitude"] < 2**-20
    assert 2**-16 < errors["bf16"]["max_error_of_magnitude"] < 2**-8
    assert all(each["violations"] == 0 for each in errors.values())


def test_verdicts_carry_their_evidence(quick: tuple[Done, Path]) -> None:
    verdicts = device_of(quick[0])["verdicts"]
    assert set(verdicts) == {"bf16", "fp16", "tf32", "fp8"}
    assert verdicts["tf32"]["support"] == "absent"
    for name in ("bf16", "fp16"):
        assert verdicts[name]["support"] in ("native", "emulated")
        assert verdicts[name]["speed_vs_fp32"] > 0
        assert "the speed of fp32" in verdicts[name]["evidence"][0]


def test_known_failures_are_facts_of_this_torch(quick: tuple[Done, Path]) -> None:
    facts = {fact["name"]: fact for fact in device_of(quick[0])["facts"]}
    assert facts["out-buffer"]["holds"] is True
    assert "Expected out tensor" in facts["out-buffer"]["message"]
    assert facts["index-put"]["holds"] is True
    assert facts["scaler-with-bf16-gradients"]["holds"] is False, "the CPU kernel takes bfloat16"


def test_an_unmet_requirement_exits_with_1_and_says_why(quick: tuple[Done, Path]) -> None:
    done, _ = quick
    assert done.returncode == 1
    assert done.stderr.startswith("precfix: tf32 is required, but on cpu (")
    assert done.stderr.count("\n") == 1, "no progress in a pipe"


def test_gradients_train50_and_the_matrix_hold_their_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "executable", python())
    underflow = run_check("grad_underflow", Task("cpu"), CheckLimits(60.0))
    assert underflow.judged().status is Status.OK
    assert (underflow.step("fp16").number("zero_share") or 0) > 0.9
    lost = run_check("lost_updates", Task("cpu"), CheckLimits(60.0))
    assert lost.judged().status is Status.OK
    assert lost.step("fp32/lr 1e-5").number("moved") == 1.0
    assert 0.1 < (lost.step("bf16/lr 1e-5").number("moved") or 0) < 0.2
    assert (lost.step("bf16/sums").number("sum"), lost.step("fp16/sums").number("sum")) == (256.0, 2048.0)
    assert "16% at lr 1e-5" in lost.judged().sentence or "15% at lr 1e-5" in lost.judged().sentence
    matrix = run_check("op_matrix", Task("cpu"), CheckLimits(60.0))
    assert matrix.judged().status is Status.OK
    assert len(matrix.steps) > 160
    assert matrix.step("bf16/softmax").text("backward") == "ok"
    assert matrix.step("bf16/linear").text("output") == "bfloat16"
    unknown = {
        name: each.failure for name, each in matrix.steps.items() if each.failure and each.failure.kind == "error"
    }
    assert unknown == {}


# --- machines that lack something -------------------------------------------------------------------------------------

NO_TORCH = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"


@pytest.fixture
def without_torch(tmp_path: Path) -> str:
    (tmp_path / "torch.py").write_text(NO_TORCH, "utf-8")
    return str(tmp_path)


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--require", "bf16"), ("--device", "cpu", "--quick")])
def test_without_torch_there_is_one_sentence(without_torch: str, arguments: tuple[str, ...]) -> None:
    done = precfix(*arguments, path=without_torch)
    assert done.returncode == 3
    assert done.stderr.startswith("precfix: PyTorch is not installed for this Python; install it")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr + done.stdout
    if "--json" in arguments:
        assert json.loads(done.stdout)["checks"][0]["class"] == "no-torch"
    else:
        assert done.stdout == ""


def test_without_torch_nothing_is_saved(without_torch: str, tmp_path: Path) -> None:
    assert precfix("--save", str(tmp_path / "p.json"), path=without_torch).returncode == 3
    assert not (tmp_path / "p.json").exists()


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is one")
    done = precfix("--device", "cuda:0", "--quick")
    assert done.returncode == 3
    assert done.stderr.startswith("precfix: cuda:0 cannot be used: ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--require", "bf61"), "one of bf16, fp16"),
        (("--require", ","), "needs a value"),
        (("--device", "gpu"), "write all, cpu, mps, cuda:0"),
        (("--device", "cuda:0; rm"), "write all, cpu, mps, cuda:0"),
        (("--save", "/no/such/folder/p.json"), "there is no folder"),
        (("--timeout", "0"), "--timeout"),
        (("--timeout", "nan"), "--timeout"),
        (("extra",), "extra"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], said: str) -> None:
    done = precfix(*arguments)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())
    assert done.stdout == ""


FAKE_TORCH = """
import types
__version__ = "2.9.9+cu999"
version = types.SimpleNamespace(cuda={cuda!r}, hip=None, debug=False)
xpu = types.SimpleNamespace(is_available=lambda: False)
cpu = types.SimpleNamespace()
def _init():
    raise RuntimeError({message!r})
cuda = types.SimpleNamespace(init=_init)
backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: False))
def set_num_threads(count): pass
"""


def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, cuda: str = "99.9") -> CheckRun:
    (tmp_path / "torch.py").write_text(FAKE_TORCH.format(cuda=cuda, message=message), "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(REPOSITORY)]))
    return run_check("environment", Task("cpu"), CheckLimits(30.0))


@pytest.mark.parametrize(
    ("message", "kind", "advice"),
    [
        ("The NVIDIA driver on your system is too old (found version 11040).", "driver-too-old", "update the driver"),
        ("Error 804: forward compatibility was attempted on non supported HW", "driver-mismatch", "cuda-compat"),
        ("CUDA error: all CUDA-capable devices are busy or unavailable", "device-busy", "nvidia-smi"),
        ("CUDA error: no kernel image is available for execution on the device", "no-kernel-image", "get_arch_list"),
    ],
)
def test_a_broken_driver_is_a_result_and_the_cpu_is_still_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str, kind: str, advice: str
) -> None:
    run = environment(tmp_path, monkeypatch, message)
    found = found_devices(run)
    assert [each.device for each in found] == ["cpu"]
    checks = {check.name: check for check in environment_checks(run, found)}
    assert checks["environment"].status is Status.OK
    assert (checks["cuda"].status, checks["cuda"].failure) == (Status.FAILED, kind)
    assert advice in checks["cuda"].sentence
    assert missing_device("cuda:0", run, found).failure == kind


def test_a_driver_that_crashes_hides_no_other_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crash = FAKE_TORCH.format(cuda="99.9", message="").replace("raise RuntimeError('')", "import os; os.abort()")
    assert "os.abort()" in crash
    (tmp_path / "torch.py").write_text(crash, "utf-8")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(REPOSITORY)]))
    run = run_check("environment", Task("cpu"), CheckLimits(30.0))
    found = found_devices(run)
    assert [each.device for each in found] == ["cpu"]
    checks = {check.name: check for check in environment_checks(run, found)}
    assert (checks["cuda"].status, checks["cuda"].failure) == (Status.CRASHED, "abort")


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupted_probe_ends_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    """The fake torch hangs while it is imported, and leaves its process's number behind."""
    (tmp_path / "torch.py").write_text(
        "import os, pathlib, time\n(pathlib.Path(__file__).parent / f'{os.getpid()}.pid').touch()\ntime.sleep(120)\n",
        "utf-8",
    )
    command = [sys.executable, "-m", "precfix.codemod", "probe", "--quick"]
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 20
    while not list(tmp_path.glob("*.pid")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (130, "", "precfix: interrupted\n")
    children = [int(file.stem) for file in tmp_path.glob("*.pid")]
    assert children
    assert [number for number in children if Path(f"/proc/{number}").exists()] == []


def test_a_gpu_beside_a_cpu_only_build_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = environment(tmp_path, monkeypatch, "Torch not compiled with CUDA enabled", cuda="")
    steps = {**run.steps}
    from precfix.probes.step import StepResult

    for gpu, status in (("nvidia", Status.FAILED), ("", Status.SKIPPED)):
        steps["hardware"] = StepResult({"gpu": gpu, "driver": "", "visible": None})
        seen = CheckRun(run.name, run.task, steps, run.seconds)
        check = environment_checks(seen, found_devices(seen))[1]
        assert (check.status, check.failure) == (status, "cpu-only-build")
        assert ("has an NVIDIA GPU, but" in check.sentence) == bool(gpu)
