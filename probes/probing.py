"""Probes this machine: the environment first, then every check on every device that was asked for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version

from ..codemod.profiles.profile import CheckResult, Profile, ProfiledDevice, Status
from .checks import known_failures, op_matrix
from .devices import FoundDevice, environment_checks, found_devices, machine_of, missing_device, torch_of
from .recommending import common_regime, recommend
from .runner import TIMING, CheckLimits, CheckRun, run_check
from .step import Task
from .verdicts import verdicts

FIRST = "dtypes"
"""The check that runs before the others: a device that fails it in float32 computes nothing."""
QUICK = ("autocast_smoke", "matmul_error", "known_failures", "throughput")
FULL = (
    *("autocast_smoke", "matmul_error", "grad_underflow", "lost_updates", "train50", "known_failures", "op_matrix"),
    "throughput",
)
ALL = "all"


def _nothing(text: str) -> None:
    """Nobody watches."""


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What to probe: ``all`` or a device as torch spells it, how thoroughly, and how long one check may take."""

    device: str = ALL
    quick: bool = False
    timeout: float = 120.0
    watch: Callable[[str], None] = field(default=_nothing)
    """Told what is going on: ``cuda:0 train50``."""
    stop: threading.Event = field(default_factory=threading.Event)
    """Ends every check that still runs."""

    @property
    def checks(self) -> tuple[str, ...]:
        """The checks to run after FIRST."""
        return QUICK if self.quick else FULL


def probe(request: ProbeRequest) -> Profile:
    """Probe this machine. Never raises for what the machine does; without torch the profile has no devices."""
    started = time.monotonic()
    with _side_by_side(_workers(request.device), request) as pool:
        environment = pool.submit(_run, "environment", "cpu", request, threads=1)
        on_cpu = _start_on_cpu(request, pool)
        run = environment.result()
        ahead = {name: future.result() for name, future in on_cpu.items()}
    found = found_devices(run)
    wanted = _wanted(found, request.device)
    checks = environment_checks(run, found)
    if found and not wanted:
        checks = (*checks, missing_device(request.device, run, found))
    devices = _probe_accelerators([each for each in wanted if each.device != "cpu"], request)
    devices += [_probe_cpu(each, request, ahead) for each in wanted if each.device == "cpu"]
    return Profile(
        created=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        precfix=_version(),
        mode="quick" if request.quick else "full",
        seconds=round(time.monotonic() - started, 2),
        machine=machine_of(run),
        torch=torch_of(run),
        devices=tuple(devices),
        checks=checks,
        recommended=common_regime(Profile(devices=tuple(devices)).training_devices),
    )


def _wanted(found: Sequence[FoundDevice], device: str) -> list[FoundDevice]:
    if device == ALL:
        return list(found)
    name = f"{device}:0" if device in ("cuda", "xpu") else device
    return [each for each in found if each.device == name]


@contextmanager
def _side_by_side(workers: int, request: ProbeRequest) -> Iterator[ThreadPoolExecutor]:
    """A pool that is not waited for when the program is interrupted."""
    pool = ThreadPoolExecutor(workers)
    try:
        yield pool
    except BaseException:
        request.stop.set()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=request.stop.is_set())


def _workers(device: str) -> int:
    """How many checks run on the CPU at once, the environment's among them; no other where no CPU is asked for."""
    return min(4, _cores()) if device in (ALL, "cpu") else 1


def _start_on_cpu(request: ProbeRequest, pool: ThreadPoolExecutor) -> dict[str, Future[CheckRun]]:
    """The CPU is there wherever torch is: its checks need not wait until the environment is known."""
    if request.device not in (ALL, "cpu"):
        return {}
    threads = max(1, _cores() // _workers(request.device))
    names = (FIRST, *(name for name in request.checks if name not in TIMING))
    return {name: pool.submit(_run, name, "cpu", request, threads) for name in names}


def _probe_cpu(found: FoundDevice, request: ProbeRequest, ahead: dict[str, CheckRun]) -> ProfiledDevice:
    """The checks that ran ahead, and then those that measure speed.

    On one thread: where other processes take a core, threads wait for each other far longer than they compute.
    """
    runs = dict(ahead)
    if runs[FIRST].step("fp32").failure is None:
        runs.update({name: _run(name, "cpu", request, threads=1) for name in request.checks if name in TIMING})
    return _device(found, runs, request.checks)


def _probe_accelerators(wanted: Sequence[FoundDevice], request: ProbeRequest) -> list[ProfiledDevice]:
    """Different devices side by side."""
    if not wanted:
        return []
    with _side_by_side(min(8, len(wanted), max(1, _cores() // 2)), request) as pool:
        return list(pool.map(lambda found: _probe_accelerator(found, request), wanted))


def _probe_accelerator(found: FoundDevice, request: ProbeRequest) -> ProfiledDevice:
    """One check after the other: a GPU may be in exclusive mode, and its memory is not shared well."""
    first = _run(FIRST, found.device, request)
    runs = {FIRST: first}
    if first.step("fp32").failure is None and first.failure is None:
        runs.update({name: _run(name, found.device, request) for name in request.checks})
    return _device(found, runs, request.checks)


def _run(name: str, device: str, request: ProbeRequest, threads: int = 0) -> CheckRun:
    request.watch(name if name == "environment" else f"{device} {name}")
    return run_check(name, Task(device, request.quick), CheckLimits(request.timeout, threads, request.stop))


def _device(found: FoundDevice, runs: dict[str, CheckRun], wanted: Sequence[str]) -> ProfiledDevice:
    steps = {name: run.steps for name, run in runs.items()}
    known = verdicts(found, steps[FIRST], steps.get("throughput", {}))
    device = ProfiledDevice(
        device=found.device,
        backend=found.backend,
        name=found.name,
        capability=found.capability,
        memory_bytes=found.memory_bytes,
        verdicts=known,
        checks=tuple(_result(runs[name]) for name in (FIRST, *wanted) if name in runs),
        ops=op_matrix.rows(steps.get("op_matrix", {})),
        facts=known_failures.facts(steps.get("known_failures", {})),
    )
    missing = tuple(
        CheckResult(name, Status.SKIPPED, "", f"not run: see {FIRST}") for name in wanted if name not in runs
    )
    if missing:
        return replace(device, checks=(*device.checks, *missing))
    return replace(device, recommended=recommend(known, steps.get("autocast_smoke"), steps.get("train50")))


def _result(run: CheckRun) -> CheckResult:
    """The matrix and the facts have places of their own in a profile: their steps are not told twice."""
    result = run.judged()
    return replace(result, numbers={}) if run.name in ("op_matrix", "known_failures") else result


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version() -> str:
    try:
        return version("precfix")
    except PackageNotFoundError:
        return ""
