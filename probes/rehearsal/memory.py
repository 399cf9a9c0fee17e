"""How much memory a group of processes uses, from what Linux says of each; 0 where that is not known."""

from __future__ import annotations

import os
from pathlib import Path

PROCESSES = Path("/proc")


def used_by_group(group: int) -> int:
    """Bytes that the processes of a group hold in memory."""
    try:
        numbers = [name for name in os.listdir(PROCESSES) if name.isdigit()]
    except OSError:
        return 0
    return sum(_resident(name, group) for name in numbers)


def _resident(name: str, group: int) -> int:
    try:
        fields = (PROCESSES / name / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") if int(fields[2]) == group else 0
