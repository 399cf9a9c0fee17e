"""One command, measured with every process it starts: CPU seconds, wall seconds, peak memory."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PAUSE = 0.02
"""Seconds between two looks at the memory of a command that runs in several processes."""
_PR_SET_CHILD_SUBREAPER = 36
_MEGABYTE = 1024 * 1024


class Died(Exception):
    """A measured command did not do its work."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run cost."""

    cpu: float
    """Seconds of user and system time, of all processes."""
    wall: float
    peak: float
    """Megabytes that all processes held together; memory they share counts once."""


def adopt_orphans() -> None:
    """Let processes whose parent is gone become children of this one, so that their time is counted (Linux)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def cost_of(
    command: Sequence[str], stdin: bytes = b"", environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Cost:
    """Run a command; raises `Died` unless it ends with 0, or with 1: it found something."""
    start = time.perf_counter()
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
        cwd=cwd,
        start_new_session=True,
    )
    with _watched(process.pid) as seen:
        assert process.stdin is not None
        assert process.stderr is not None
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(stdin)
        with process.stderr:
            said = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        raise Died(f"{' '.join(command)} ended with {process.returncode}: {said.decode(errors='replace')[-500:]}")
    cpu = usage.ru_utime + usage.ru_stime + _orphans(process.pid)
    return Cost(cpu, wall, max(usage.ru_maxrss * _unit_of_maxrss() / _MEGABYTE, *seen))


def _unit_of_maxrss() -> int:
    return 1 if sys.platform == "darwin" else 1024


def _orphans(session: int) -> float:
    """CPU seconds of what the command left running, which is ended here."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(session, signal.SIGTERM)
    spent = 0.0
    while True:
        try:
            _, _, usage = os.wait4(-1, 0)
        except ChildProcessError:
            return spent
        spent += usage.ru_utime + usage.ru_stime


@contextlib.contextmanager
def _watched(session: int) -> Iterator[list[float]]:
    """Megabytes held by the processes of a session, noted while it has more than one: the kernel knows about one."""
    seen, done = [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(PAUSE):
            members = _members(session)
            if len(members) > 1:
                seen.append(sum(map(_megabytes, members)))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join()


def _members(session: int) -> list[int]:
    found = []
    with contextlib.suppress(FileNotFoundError):  # no /proc here
        for name in os.listdir("/proc"):
            with contextlib.suppress(ProcessLookupError, PermissionError, ValueError):
                if os.getsid(int(name)) == session:
                    found.append(int(name))
    return found


def _megabytes(pid: int) -> float:
    """The proportional set size: a page that n processes share counts as 1/n for each."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text("ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
