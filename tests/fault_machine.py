"""Faults that the system itself brings about: a full disk, limits, lost permissions, and kill -9 at any moment."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from .fault_cases import OPERATIONS, Operation, in_child, judge, sandbox, steps_of
from .fault_project import BIG, Result, Sandbox, check, settle
from .fault_steps import Fault, meanwhile, none

PAGE = 4096
NOBODY = 65534


class Skipped(Exception):
    """This machine cannot do that; the message is the reason."""


@dataclass(frozen=True)
class Machine:
    """A row of the table: ``run(folder, every, result)`` tries each ``every``-th case; raises Skipped."""

    name: str
    run: Callable[[Path, int, Result], None]


def _one(
    operation: Operation,
    box: Sandbox,
    limit: Callable[[], None],
    after: Callable[[], None],
    result: Result,
    what: str,
    fault: Fault = none,
) -> None:
    def limited() -> None:
        limit()
        operation.run(box)

    outcome = in_child(limited, fault)
    result.count(operation.name)
    judge(box, outcome, operation, result, what)
    after()
    check(box, result, what)
    settle(box, result, what)


def _nothing() -> None:
    pass


# --- a full disk ------------------------------------------------------------------------------------------------------


@contextmanager
def _disk(folder: Path, options: str) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(dir=folder))
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", place], capture_output=True, check=False
    )
    try:
        if not mounted or mounted.returncode:
            raise Skipped("only root may mount a small disk")
        yield place
    finally:
        if mounted and not mounted.returncode:
            subprocess.run(["umount", place], check=True)
        place.rmdir()


def full_disk(folder: Path, every: int, result: Result) -> None:
    """Between none and more than enough pages are left."""
    with _disk(folder, "size=24m") as disk:
        for operation in OPERATIONS:
            for free in sorted({*range(0, 40), *range(40, 2000, 40)})[::every]:
                with sandbox(disk, BIG) as box:
                    operation.prepare(box)
                    filler = disk / "filler"
                    _fill(filler, free)
                    what = f"{free} pages left, {operation.name}"
                    _one(operation, box, _nothing, filler.unlink, result, what)


def _fill(filler: Path, free: int) -> None:
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(64 * PAGE))
        except OSError:
            size = os.fstat(file.fileno()).st_size
        file.truncate(max(0, size - free * PAGE))


def no_inodes(folder: Path, every: int, result: Result) -> None:
    """The disk has room for bytes, and for few more files or none."""
    with _disk(folder, "size=24m,nr_inodes=120") as disk:
        for operation in OPERATIONS:
            for free in range(0, 20, every):
                with sandbox(disk) as box:
                    operation.prepare(box)
                    fillers = _use_inodes(disk, free)
                    what = f"{free} files may be made, {operation.name}"
                    _one(operation, box, _nothing, partial(shutil.rmtree, fillers), result, what)


def _use_inodes(disk: Path, free: int) -> Path:
    fillers = disk / "fillers"
    fillers.mkdir()
    made: list[Path] = []
    try:
        while True:
            path = fillers / str(len(made))
            path.touch()
            made.append(path)
    except OSError:
        for path in made[len(made) - free :]:
            path.unlink()
    return fillers


# --- limits of the process --------------------------------------------------------------------------------------------


_SIZES = (0, 1, 2, 5, 10, 20, 50, 100, 300, 500, 700, 900, 1100, 10**4, 10**5, 3 * 10**5, 10**6, 3 * 10**6, 4 * 10**6)


def size_limit(folder: Path, every: int, result: Result) -> None:
    """The process may not write files beyond some size."""
    for operation in OPERATIONS:
        for limit in _SIZES[::every]:
            with sandbox(folder, BIG) as box:
                operation.prepare(box)
                what = f"files up to {limit} bytes, {operation.name}"
                _one(operation, box, partial(_limit_size, limit), _nothing, result, what)


def _limit_size(limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))


def open_files_limit(folder: Path, every: int, result: Result) -> None:
    """The process may open few more files or none."""
    for operation in OPERATIONS:
        for more in range(0, 5, every):
            with sandbox(folder) as box:
                operation.prepare(box)
                what = f"{more} more open files, {operation.name}"
                _one(operation, box, partial(_limit_open, more), _nothing, result, what)


def _limit_open(more: int) -> None:
    used = max(int(name) for name in os.listdir("/proc/self/fd" if sys.platform == "linux" else "/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + more, used + more))


# --- permission lost --------------------------------------------------------------------------------------------------


def permission_lost(folder: Path, every: int, result: Result) -> None:
    """A folder becomes read-only or closed, for a user who is not root."""
    folder.chmod(0o755)
    losses = [(".", 0o500), ("sub/deep", 0o500), ("sub/deep", 0), (".precfix", 0o500), (".precfix/journal", 0o500)]
    for operation in OPERATIONS:
        steps = len(steps_of(operation, folder))
        for number, (name, mode) in enumerate(losses):
            for at in range(7 * number % every, steps, every):
                with sandbox(folder) as box:
                    operation.prepare(box)
                    _own(box)
                    lose = meanwhile(at, partial(_change_mode, box.root / name, mode))
                    mend = partial(_change_mode, box.root / name, 0o755)
                    what = f"{name} becomes {mode:o}, {operation.name}, step {at}"
                    _one(operation, box, _become_nobody, mend, result, what, lose)


def _own(box: Sandbox) -> None:
    box.folder.chmod(0o755)
    if os.getuid() == 0:
        for top, folders, files in os.walk(box.root):
            for path in (top, *(os.path.join(top, name) for name in (*folders, *files))):
                os.lchown(path, NOBODY, NOBODY)


def _become_nobody() -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _change_mode(path: Path, mode: int) -> None:
    if path.exists():
        path.chmod(mode)


# --- the command, killed ----------------------------------------------------------------------------------------------

_CONFIG = """{
  "train_micro_batch_size_per_gpu": 8,
  "bf16": {
    "enabled": true,
    "loss_scale": 0,
    "initial_scale_power": 16
  },
  "zero_optimization": { "stage": 2 },
  "note": "%s"
}
"""
_CONFIGS = {f"part{number}/ds_config.json": (_CONFIG % ("x" * 10**number)).encode() for number in range(6)}


def killed_command(folder: Path, every: int, result: Result) -> None:
    """``precfix migrate`` and ``precfix undo`` get SIGKILL at a random moment after they began to write."""
    rng = random.Random(20)
    new = _migrated(folder / "model")
    for number in range(0, 30, every):
        root = folder / f"command{number}"
        _make_configs(root)
        undoing = number // every % 3 == 2
        if undoing:
            _finish(_command(root, "migrate"), (0, 1))
        _kill_soon(_command(root, "undo" if undoing else "migrate"), root / ".precfix/lock", rng.uniform(0, 0.02))
        result.count("undo" if undoing else "apply")
        _look(root, new, result, f"command {number}")
        shutil.rmtree(root)


def _migrated(root: Path) -> dict[str, bytes]:
    _make_configs(root)
    _finish(_command(root, "migrate"), (0, 1))
    new = {name: (root / name).read_bytes() for name in _CONFIGS}
    assert not [name for name, data in new.items() if data == _CONFIGS[name]], "the command changes every file"
    shutil.rmtree(root)
    return new


def _make_configs(root: Path) -> None:
    for name, data in _CONFIGS.items():
        (root / name).parent.mkdir(parents=True)
        (root / name).write_bytes(data)


def _command(root: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "precfix.codemod", *words, str(root)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def _finish(process: subprocess.Popen[bytes], accepted: Sequence[int]) -> str:
    text = process.communicate()[1].decode()
    assert process.returncode in accepted, text
    return text


def _kill_soon(process: subprocess.Popen[bytes], sign: Path, delay: float) -> None:
    while process.poll() is None and not sign.exists():
        time.sleep(0.0002)
    time.sleep(delay)
    process.kill()
    process.communicate()


def _look(root: Path, new: dict[str, bytes], result: Result, what: str) -> None:
    for name, old in _CONFIGS.items():
        if (root / name).read_bytes() not in (old, new[name]):
            result.wrong.append(f"{what}: {name} is neither old nor new")
            result.lost += len(old)
    text = _finish(_command(root, "undo"), (0, 2))
    if "if it is not, delete" in text:
        result.told += 1
        (root / ".precfix/lock").unlink()
        text = _finish(_command(root, "undo"), (0, 2))
    if text and "nothing to undo" not in text:
        result.wrong.append(f"{what}: undo says {text}")
    for name, old in _CONFIGS.items():
        if (root / name).read_bytes() != old:
            result.wrong.append(f"{what}: {name} is not old after undo")
            result.lost += len(old)


MACHINES = (
    Machine("real: a disk with few pages left", full_disk),
    Machine("real: a disk with few files left", no_inodes),
    Machine("real: a limit for the size of files", size_limit),
    Machine("real: a limit for open files", open_files_limit),
    Machine("real: a folder becomes read-only or closed", permission_lost),
    Machine("real: the command gets kill -9 while it writes", killed_command),
)
