"""The command in a child process that may take only so much memory and processor time. Not a test."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from . import warm

MEMORY = 2 * 1024**3
"""Bytes of address space."""
SECONDS = 100
"""Processor time: far above what is needed, far below what work that grows with the square takes."""


def bounded(
    *arguments: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """``precfix`` with ``arguments``; killed by the kernel when it goes beyond the limits."""

    limits = {"RLIMIT_AS": MEMORY, "RLIMIT_CPU": SECONDS}
    return warm.precfix(*arguments, cwd=cwd, environment=environment, limits=limits)


def went_well(done: subprocess.CompletedProcess[bytes], *codes: int) -> None:
    """Assert that the run ended by itself, with one of ``codes`` and without a traceback or an internal error."""
    said = (done.stdout[-2000:] + done.stderr[-2000:]).decode(errors="replace")
    assert done.returncode in codes, f"exit code {done.returncode}: {said}"
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"internal error" not in done.stderr
    assert b"Rules that failed" not in done.stdout
