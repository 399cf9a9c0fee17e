"""A check whose steps go wrong in every way a machine can: run as ``tests.probe_faults`` in a child process."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from precfix.probes.step import Judgment, Numbers, ProbeStep, StepResult, Task, first_failure

FAULTS = "PRECFIX_TEST_FAULTS"
"""The environment variable that names the steps to run, separated by commas."""


def steps(task: Task) -> Iterator[ProbeStep]:
    for name in os.environ[FAULTS].split(","):
        yield name, KINDS[name]


def judge(results: Mapping[str, StepResult], task: Task) -> Judgment:
    return first_failure(results) or Judgment(True, "all steps came back")


def _fine() -> Numbers:
    return {"value": 1}


def _noisy() -> Numbers:
    print('{"end": "noisy", "numbers": {"value": 666}}', flush=True)
    os.write(1, b"\xff\x00 not JSON\n" * 10_000)
    os.write(2, b"warning\n" * 10_000)
    return {"value": 2, "infinite": float("inf")}


def _segfault() -> Numbers:
    ctypes.string_at(0)
    return {}


def _raised(error: BaseException) -> Callable[[], Numbers]:
    def step() -> Numbers:
        raise error

    return step


def _killed_by(number: int) -> Callable[[], Numbers]:
    def step() -> Numbers:
        os.kill(os.getpid(), number)
        time.sleep(30)
        return {}

    return step


def _hang() -> Numbers:
    time.sleep(600)
    return {}


def _exit() -> Numbers:
    os._exit(7)


def _memory() -> Numbers:
    import torch

    torch.empty(2**55, dtype=torch.uint8)
    return {}


def _cuda() -> Numbers:
    import torch

    torch.ones(1).cuda()
    return {}


def _process_id() -> Numbers:
    return {"pid": os.getpid()}


KINDS: dict[str, Callable[[], Numbers]] = {
    "fine": _fine,
    "noisy": _noisy,
    "segfault": _segfault,
    "illegal": _killed_by(signal.SIGILL),
    "abort": os.abort,
    "killed": _killed_by(signal.SIGKILL),
    "bus": _killed_by(signal.SIGBUS),
    "hang": _hang,
    "exit": _exit,
    "exit0": lambda: os._exit(0),
    "sys-exit": lambda: sys.exit(4),
    "memory": _memory,
    "cuda": _cuda,
    "sticky": _raised(RuntimeError("CUDA error: an illegal memory access was encountered")),
    "pid": _process_id,
    "last-pid": _process_id,
}
