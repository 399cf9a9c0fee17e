"""The real command in a child process that may take only so much memory and processor time. Not a test."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

MEMORY = 2 * 1024**3
"""Bytes of address space."""
SECONDS = 100
"""Processor time: far above what is needed, far below what work that grows with the square takes."""


def bounded(
    *arguments: object, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """``precfix`` with ``arguments``; killed by the kernel when it goes beyond the limits."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

    command = Path(sys.executable).with_name("precfix")
    start = [str(command)] if command.exists() else [sys.executable, "-m", "precfix.codemod"]
    return subprocess.run(
        [*start, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        preexec_fn=limit,
        timeout=10 * SECONDS,
    )


def went_well(done: subprocess.CompletedProcess[bytes], *codes: int) -> None:
    """Assert that the run ended by itself, with one of ``codes`` and without a traceback or an internal error."""
    said = (done.stdout[-2000:] + done.stderr[-2000:]).decode(errors="replace")
    assert done.returncode in codes, f"exit code {done.returncode}: {said}"
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"internal error" not in done.stderr
    assert b"Rules that failed" not in done.stdout
