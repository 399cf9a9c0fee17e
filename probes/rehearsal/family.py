"""The processes of a command: those of its session, and on Linux also what has left it, as daemons do."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROCESSES = Path("/proc")
_SET_CHILD_SUBREAPER = 36
_ENDED = ("Z", "X")


class _Process(NamedTuple):
    """What Linux says of one; ``memory`` in bytes."""

    number: int
    parent: int
    group: int
    memory: int


class ProcessFamily:
    """Made before the command starts: whoever's parent is gone becomes a child of precfix from then on."""

    def __init__(self) -> None:
        with suppress(OSError, AttributeError):  # of Linux
            ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._others = {each.number for each in _running() if each.parent == os.getpid()}
        self.leader = 0

    def memory(self) -> int:
        """Bytes that all of them hold; 0 where that is not known."""
        return sum(each.memory for each in self._members())

    def living(self) -> set[int]:
        """Their numbers; empty where that is not known. Whose parent ended just then is found at a second look."""
        return {each.number for each in self._members() or self._members()}

    def signal(self, number: signal.Signals) -> None:
        """To each of them, once."""
        away = sorted(each.number for each in self._members() if each.group != self.leader)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.leader, number)
        for process in away:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(process, number)

    def _members(self) -> list[_Process]:
        found: dict[int, _Process] = {}
        running = [*_running()]
        before = -1
        while len(found) > before:
            before = len(found)
            for each in running:
                adopted = each.parent == os.getpid() and each.number not in self._others
                if adopted or each.group == self.leader or each.parent in found:
                    found[each.number] = each
        return list(found.values())


def _running() -> Iterator[_Process]:
    try:
        numbers = [name for name in os.listdir(PROCESSES) if name.isdigit()]
    except OSError:
        return
    for name in numbers:
        try:
            text = (PROCESSES / name / "stat").read_text("utf-8", "replace")
        except OSError:
            continue
        state, parent, group, *rest = text.rpartition(")")[2].split()
        if state not in _ENDED:
            yield _Process(int(name), int(parent), int(group), int(rest[18]) * os.sysconf("SC_PAGE_SIZE"))
