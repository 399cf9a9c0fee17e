"""One writer at a time: a lock file made with ``O_EXCL``, which also holds on network disks without ``flock``."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..model import UsageError
from .replacing import read_regular

EMPTY_IS_STALE_AFTER = 10.0
"""Seconds after which a lock file without an owner is taken for the rest of a crash."""
_MAX_SIZE = 4096


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Hold ``store/lock``; raises UsageError when another run holds it, OSError when it cannot be made.

    The lock of a process that died on this machine is taken over; one from another machine never is.
    """
    path = store / "lock"
    if not _create(path):
        _remove_stale(path)
        if not _create(path):
            raise _busy(path, "another precfix run")
    try:
        yield
    finally:
        with suppress(OSError):  # the work is done; a lock that stays is taken over by the next run
            path.unlink()


def _create(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(json.dumps({"pid": os.getpid(), "host": platform.node()}).encode())
    except BaseException:
        with suppress(OSError):
            path.unlink()
        raise
    return True


def _remove_stale(path: Path) -> None:
    """Remove the lock when its owner is gone; raises UsageError when it is held."""
    with _alone(path):
        try:
            holder = _holder(path)
            if holder is not None:
                raise _busy(path, holder)
            path.unlink()
        except FileNotFoundError:  # given back meanwhile; removing it now could hit the next owner's
            pass


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Look at a lock and remove it as one step; raises UsageError when another run is doing so, or none can.

    Of two runs that both find a dead owner, the slower one would otherwise remove the lock that the faster one has
    just made. The system's own lock on the folder ends with its process, so that a crash leaves nothing behind.
    """
    if sys.platform == "win32":
        raise _busy(path, "another precfix run")
    import fcntl

    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # held, or a network disk that has no such locks
            raise _busy(path, "another precfix run") from None
        yield
    finally:
        os.close(descriptor)


def _holder(path: Path) -> str | None:
    """Who holds the lock, in words; None when its owner is gone. Raises FileNotFoundError when there is no lock."""
    data, _ = read_regular(path, _MAX_SIZE)
    age = time.time() - path.stat().st_mtime
    if not data.strip():
        return "a starting precfix run" if age < EMPTY_IS_STALE_AFTER else None
    try:
        owner = json.loads(data)
        pid, host = int(owner["pid"]), str(owner["host"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return "an unknown program"
    if host != platform.node():
        return f"process {pid} on {host!r}"
    return f"process {pid}" if _is_alive(pid) else None


def _is_alive(pid: int) -> bool:
    if sys.platform == "win32":
        return True  # there, os.kill(pid, 0) does not ask, it ends the process
    if not 0 < pid < 2**31:
        return False
    with suppress(PermissionError):  # alive, and somebody else's
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
    return True


def _busy(path: Path, holder: str) -> UsageError:
    return UsageError(f"{holder} is writing to this project; if it is not, delete {str(path)!r}")
