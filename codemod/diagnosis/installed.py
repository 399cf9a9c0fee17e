"""The source lines that a log leaves out, of libraries installed on this machine: read, never imported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..source.reading import FileRefused, read_regular_file
from .tracebacks import StackFrame

INSTALLED = ("/site-packages/", "/dist-packages/")
MAX_BYTES = 2_000_000
MAX_READ = 8
"""So many of the innermost frames are looked up."""


def with_sources(frames: Sequence[StackFrame]) -> tuple[StackFrame, ...]:
    """The frames, the innermost of them with their source line where it is missing and the file is here."""
    outer, inner = frames[:-MAX_READ], frames[-MAX_READ:]
    return (*outer, *(frame if frame.code else replace(frame, code=_line(frame)) for frame in inner))


def _line(frame: StackFrame) -> str:
    path = frame.posix
    if not path.startswith("/") or not path.endswith(".py") or not any(mark in path for mark in INSTALLED):
        return ""
    try:
        lines = read_regular_file(path, MAX_BYTES).decode("utf-8", "replace").splitlines()
    except (OSError, FileRefused, ValueError):
        return ""
    return lines[frame.row - 1].strip()[:300] if 1 <= frame.row <= len(lines) else ""
