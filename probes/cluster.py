"""Probes a cluster: every rank its own device, the first rank puts the answers together.

A rank writes its profile into a folder *before* it meets the others, so that a rank that dies takes nothing with it:
its file is missing, and that is the report. Where the launcher gives an address (``MASTER_ADDR``), profiles also travel
over gloo, which serves machines without a shared folder; that happens in a process of its own, because a gathering
that waits for a dead rank can neither be interrupted nor hear the launcher's SIGTERM.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from ..codemod.model import UsageError
from ..codemod.profiles.profile import CheckResult, Profile, ProfiledDevice, Status
from ..codemod.profiles.profile_file import load, save
from .ranks import RankPlace
from .recommending import common_regime, ranks_told

GATHER_SECONDS = 180.0
GRACE_SECONDS = 15.0
STALE_SECONDS = 3600.0
"""A rank's file that is so much older than the first rank's start is of an earlier run."""
POLL = 0.1
DTYPES = ("bf16", "fp16", "tf32", "fp8")


class _Terminated(Exception):
    """The launcher wants this process to end."""


def probe_rank(
    place: RankPlace, probe: Callable[[], Profile], folder: Path, wait: float = GATHER_SECONDS
) -> tuple[Profile | None, ...] | None:
    """Probe this rank's device and write its profile; on the first rank, the profiles of all ranks, by rank.

    None stands for a rank that was not heard of within ``wait`` seconds. On every other rank the answer is None. Raises
    `UsageError` when the folder cannot be written.
    """
    started = time.time()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file_name(place.rank)).unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"the ranks' folder {str(folder)!r} cannot be used: {error.strerror}") from error
    with _told_by_launcher(place.is_first) as order:
        try:
            profile = probe()
            save(_with_rank(profile, place.rank), folder / file_name(place.rank))
            order.stop_at_once()
            _gather(place, folder, wait)
            if place.is_first:
                _wait_for_files(place, folder, wait, started)
        except _Terminated:  # another rank has died: say what is known while there is time
            pass
    return tuple(_read(place, folder, started)) if place.is_first else None


def file_name(rank: int) -> str:
    """The file of one rank in the shared folder."""
    return f"rank-{rank:05d}.json"


def _with_rank(profile: Profile, rank: int) -> Profile:
    """Only the devices the rank trains on, each with its rank and machine."""
    host = profile.machine.host
    devices = tuple(replace(device, rank=rank, host=host) for device in profile.training_devices)
    return replace(profile, devices=devices)


class _Order:
    """What SIGTERM does to the first rank: launchers send it when any rank has died, and kill half a minute later."""

    def __init__(self) -> None:
        self._told = False
        self._waiting = False

    def stop_at_once(self) -> None:
        """From here on there is nothing left to do but to wait for others."""
        self._waiting = True
        if self._told:
            raise _Terminated

    def told(self, _number: int, _frame: FrameType | None) -> None:
        self._told = True
        if self._waiting:
            raise _Terminated
        if hasattr(signal, "setitimer"):  # the own probe may still end in time
            signal.setitimer(signal.ITIMER_REAL, GRACE_SECONDS)

    def too_late(self, _number: int, _frame: FrameType | None) -> None:
        raise _Terminated


@contextmanager
def _told_by_launcher(is_first: bool) -> Iterator[_Order]:
    order = _Order()
    if is_first:
        signal.signal(signal.SIGTERM, order.told)
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, order.too_late)
    try:
        yield order
    finally:
        if is_first:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what follows is short, and must be printed
            if hasattr(signal, "setitimer"):
                signal.setitimer(signal.ITIMER_REAL, 0)


def _gather(place: RankPlace, folder: Path, wait: float) -> None:
    """Exchange the ranks' files over gloo; whatever goes wrong, the files on disk stay the answer."""
    if place.size < 2 or not os.environ.get("MASTER_ADDR") or not os.environ.get("MASTER_PORT"):
        return
    environment = {**os.environ, "RANK": str(place.rank), "WORLD_SIZE": str(place.size)}
    command = [sys.executable, "-m", "precfix.probes.gathering", os.fspath(folder.resolve()), str(wait)]
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(process, wait + 30)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(5)


def _wait_for(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Poll: a blocking wait would be as deaf to SIGTERM as the gathering itself on some systems."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(POLL)


def _wait_for_files(place: RankPlace, folder: Path, wait: float, started: float) -> None:
    end = time.monotonic() + wait
    while time.monotonic() < end and not all(_is_there(folder, rank, started) for rank in range(place.size)):
        time.sleep(POLL)


def _is_there(folder: Path, rank: int, started: float) -> bool:
    try:
        return (folder / file_name(rank)).stat().st_mtime > started - STALE_SECONDS
    except OSError:
        return False


def _read(place: RankPlace, folder: Path, started: float) -> Iterator[Profile | None]:
    for rank in range(place.size):
        if not _is_there(folder, rank, started):
            yield None
            continue
        try:
            yield _with_rank(load(folder / file_name(rank)), rank)
        except UsageError:  # half a file counts as none: the rank died while it wrote, on a disk without rename
            yield None


# --- what the ranks say together --------------------------------------------------------------------------------------


def cluster_profile(answers: Sequence[Profile | None]) -> Profile:
    """The ranks' profiles as one: all devices, what differs, which ranks are missing, the regime all support."""
    profiles = [answer for answer in answers if answer is not None]
    devices = tuple(device for profile in profiles for device in profile.devices)
    checks = [check for profile in profiles for check in profile.checks]
    lost = [_lost(rank, answer) for rank, answer in enumerate(answers) if answer is None or not answer.devices]
    alike = "All ranks that answered are alike." if lost else "All ranks are alike."
    checks += lost
    checks += [CheckResult("cluster", Status.OK, sentence=said) for said in tuple(differences(profiles)) or (alike,)]
    first = next((profile for profile in profiles if profile.devices), Profile())
    note = f"{len(answers) - len(lost)} of {len(answers)} ranks"
    return replace(first, devices=devices, checks=tuple(checks), recommended=common_regime(devices), note=note)


def _lost(rank: int, answer: Profile | None) -> CheckResult:
    if answer is None:
        sentence = f"Rank {rank} has left no profile: it died or hung; look at its own output."
        return CheckResult(f"rank {rank}", Status.CRASHED, "rank-missing", sentence)
    why = next((check.sentence for check in answer.checks if check.status is not Status.OK), "there is none to see")
    return CheckResult(f"rank {rank}", Status.FAILED, "rank-missing", f"Rank {rank} has no device: {why}")


def missing_ranks(profile: Profile) -> tuple[CheckResult, ...]:
    """The checks of a cluster's profile that stand for ranks without an answer, or without a device."""
    return tuple(check for check in profile.checks if check.failure == "rank-missing")


def differences(profiles: Sequence[Profile]) -> Iterator[str]:
    """One sentence for each thing that is not the same on all ranks."""
    yield from _differing("devices", profiles, lambda device, _: device.label)
    for dtype in DTYPES:
        yield from _differing(dtype, profiles, lambda device, _, dtype=dtype: device.support(dtype).value)  # type: ignore[misc]
    yield from _differing("memory", profiles, lambda device, _: _gib(device.memory_bytes))
    yield from _differing("torch", profiles, lambda _, profile: profile.torch.version)
    yield from _differing("CUDA", profiles, lambda _, profile: profile.torch.cuda)
    yield from _differing("driver", profiles, lambda _, profile: profile.torch.driver)


def _differing(
    what: str, profiles: Sequence[Profile], value_of: Callable[[ProfiledDevice, Profile], str]
) -> Iterator[str]:
    ranks: dict[str, list[int]] = {}
    for profile in profiles:
        for device in profile.devices:
            ranks.setdefault(value_of(device, profile), []).append(device.rank or 0)
    if len(ranks) > 1:
        parts = (f"{value or 'unknown'} on {ranks_told(found)}" for value, found in ranks.items())
        yield f"The ranks differ in {what}: {', '.join(parts)}."


def _gib(size: int | None) -> str:
    return f"{size / (1 << 30):.0f} GiB" if size else ""


COLUMNS: Mapping[str, Callable[[ProfiledDevice], str]] = {
    "rank": lambda device: "" if device.rank is None else str(device.rank),
    "host": lambda device: device.host,
    "device": lambda device: device.device,
    "name": lambda device: device.name,
    "memory": lambda device: _gib(device.memory_bytes),
    **{dtype: lambda device, dtype=dtype: device.support(dtype).value for dtype in DTYPES},  # type: ignore[misc]
    "recommended": lambda device: device.recommended.regime,
}


def cluster_lines(profile: Profile) -> Iterator[str]:
    """The cluster's profile for people: a table, who is missing, what differs, the common regime."""
    rows = [tuple(COLUMNS), *(tuple(show(device) for show in COLUMNS.values()) for device in profile.devices)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    yield ""
    yield from (check.sentence for check in missing_ranks(profile))
    yield from (check.sentence for check in profile.checks if check.name == "cluster")
    if profile.recommended.regime:
        which = "every rank that answered supports" if missing_ranks(profile) else "every rank supports"
        yield f"The regime {which}: {profile.recommended.regime} ({profile.recommended.reason})."
    else:
        yield "No rank recommends a regime."
