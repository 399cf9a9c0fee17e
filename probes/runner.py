"""Runs a check in a process of its own and survives whatever becomes of it.

A step that kills the process or does not come back is recorded, and the check goes on behind it in a fresh process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..codemod.profiles.profile import CheckResult, ProfileJson, Status
from .child import check_named
from .failures import classify, of_exit, timed_out
from .step import Judgment, StepFailure, StepResult, Task

MAX_PROCESSES = 8
"""How often a check is started again behind a step that killed it."""
POLL = 0.02
LAST_WORDS = 2000
TIMING = frozenset({"throughput"})
"""Checks that must have the device to themselves and run asynchronously."""


@dataclass(frozen=True, slots=True)
class CheckLimits:
    """``seconds`` for one process of a check, a third of it for one step; ``threads`` 0 leaves torch's default."""

    seconds: float = 120.0
    threads: int = 0
    stop: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits for the result any more: the process is ended at once."""

    @property
    def per_step(self) -> float:
        return max(1.0, self.seconds / 3)


@dataclass(frozen=True, slots=True)
class CheckRun:
    """Every step that ran, and what ended the check before its time, if anything did."""

    name: str
    task: Task
    steps: Mapping[str, StepResult]
    seconds: float
    failure: StepFailure | None = None
    status: Status = Status.OK

    def step(self, name: str) -> StepResult:
        """The result of a step; an empty one when it did not run."""
        return self.steps.get(name, StepResult())

    def judged(self) -> CheckResult:
        """The check's result, as a profile holds it."""
        judgment, status = self._judgment()
        numbers: dict[str, ProfileJson] = {name: _shown(result) for name, result in self.steps.items()}
        failure = "" if judgment.ok else judgment.failure or "out-of-bounds"
        return CheckResult(self.name, status, failure, judgment.sentence, round(self.seconds, 2), numbers)

    def _judgment(self) -> tuple[Judgment, Status]:
        if self.failure is not None:
            return Judgment(False, self.failure.sentence, self.failure.kind), self.status
        judgment = check_named(self.name).judge(self.steps, self.task)
        if judgment.ok:
            return judgment, Status.OK
        dead = [each.status for each in self.steps.values() if each.status in (Status.CRASHED, Status.TIMEOUT)]
        return judgment, dead[0] if dead else Status.FAILED


def _shown(result: StepResult) -> ProfileJson:
    if result.failure is None:
        return dict(result.numbers)
    return {"status": result.status.value, "class": result.failure.kind, "message": result.failure.message}


@dataclass(slots=True)
class _CheckProcess:
    """What one process of a check left behind."""

    steps: dict[str, StepResult] = field(default_factory=dict)
    running: str = ""
    done: bool = False
    fatal: StepFailure | None = None
    restart: bool = False


def run_check(name: str, task: Task, limits: CheckLimits) -> CheckRun:
    """Run a check to its end, through as many processes as it takes; never raises for what a check does.

    Raises InterruptedError when it was told to stop.
    """
    started = time.monotonic()
    steps: dict[str, StepResult] = {}
    failure, status = None, Status.OK
    for _ in range(MAX_PROCESSES):
        with tempfile.TemporaryDirectory(prefix="precfix-probe-", ignore_cleanup_errors=True) as folder:
            code, end = _start(name, task, limits, list(steps), Path(folder))
            if limits.stop.is_set():
                raise InterruptedError
            left = _events(Path(folder) / "report")
            words = _last_words(Path(folder) / "stderr")
        steps.update(left.steps)
        if left.done:
            break
        failure, status = _why(code, left, words, end)
        if left.restart and not end:
            failure, status = None, Status.OK
        elif left.running:
            steps[left.running] = StepResult({}, failure, status)
            failure, status = None, Status.OK
        else:
            break
        if end and time.monotonic() - started > limits.seconds:
            failure, status = timed_out(limits.seconds), Status.TIMEOUT
            break
    return CheckRun(name, task, steps, time.monotonic() - started, failure, status)


def _why(code: int, left: _CheckProcess, words: str, late: float) -> tuple[StepFailure, Status]:
    if late:
        return timed_out(late), Status.TIMEOUT
    if left.fatal is not None:
        return left.fatal, Status.FAILED
    return of_exit(code, words), Status.CRASHED


def _start(name: str, task: Task, limits: CheckLimits, done: list[str], folder: Path) -> tuple[int, float]:
    """The exit code of one process, and the limit it ran into (0 when it ended by itself)."""
    command = [sys.executable, "-m", "precfix.probes.child", name, "--device", task.device]
    command += ["--quick"] * task.quick + ["--threads", str(limits.threads)]
    command += ["--report", str(folder / "report"), "--timeout", str(limits.seconds + 10)]
    command += [part for each in done for part in ("--skip", each)]
    with (folder / "stderr").open("wb") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,  # whatever lies in the user's current folder must not be imported
            env=_environment(name),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        try:
            return _wait(process, folder / "report", limits)
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], report: Path, limits: CheckLimits) -> tuple[int, float]:
    started = moved = time.monotonic()
    size = 0
    while process.poll() is None:
        time.sleep(POLL)
        now = time.monotonic()
        written = report.stat().st_size if report.exists() else 0
        if written != size:
            size, moved = written, now
        if limits.stop.is_set():
            return 0, 0.0
        if now - started > limits.seconds:
            return 0, limits.seconds
        if size and now - moved > limits.per_step:  # before the first line the time goes into importing torch
            return 0, limits.per_step
    return process.returncode, 0.0


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.kill()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:  # stuck inside the driver: it cannot be ended, and must not be waited for
        return


def _environment(name: str) -> dict[str, str]:
    environment = dict(os.environ)
    environment.update(PYTHONFAULTHANDLER="1", PYTHONUNBUFFERED="1", PYTHONWARNINGS="ignore")
    environment.update(PYTHONDONTWRITEBYTECODE="1")
    if name not in TIMING:
        environment["CUDA_LAUNCH_BLOCKING"] = "1"  # an error belongs to the operation that made it
    if "PYTHONPATH" in environment:  # the child has another current folder
        entries = environment["PYTHONPATH"].split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(each) for each in entries if each)
    return environment


def _events(report: Path) -> _CheckProcess:
    left = _CheckProcess()
    for event in _lines(report):
        name = str(event.get("begin") or event.get("end") or event.get("raised") or "")
        if "begin" in event:
            left.running = name
        elif "end" in event:
            numbers = event.get("numbers")
            left.steps[name] = StepResult(numbers if isinstance(numbers, dict) else {})
            left.running = ""
        elif "raised" in event:
            failure = classify(str(event.get("type")), str(event.get("message")))
            left.steps[name] = StepResult({}, failure, Status.FAILED)
            left.running, left.restart = "", failure.sticky
        elif "fatal" in event:
            left.fatal = classify(str(event.get("fatal")), str(event.get("message")))
        left.done = left.done or "done" in event
    return left


def _lines(report: Path) -> Iterator[dict[str, ProfileJson]]:
    try:
        data = report.read_bytes()
    except OSError:
        return
    for line in data.splitlines():
        try:
            event = json.loads(line)
        except ValueError:  # cut off when the process died
            continue
        if isinstance(event, dict):
            yield event


def _last_words(stderr: Path) -> str:
    """The end of what the process said, without the faulthandler's list of modules."""
    try:
        text = stderr.read_bytes()[-LAST_WORDS * 4 :].decode("utf-8", "replace")
    except OSError:
        return ""
    return text.partition("Extension modules:")[0][-LAST_WORDS:].strip()
