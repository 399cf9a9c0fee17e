"""Which rank of a distributed run this process is, and which device is its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from ..codemod.model import UsageError

LAUNCHERS = (
    ("torchrun", "RANK", "WORLD_SIZE", ("LOCAL_RANK",)),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    ("MPI", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID", "PMI_LOCAL_RANK")),
    ("SLURM", "SLURM_PROCID", "SLURM_NTASKS", ("SLURM_LOCALID",)),
)
"""Launcher; its variables for the rank, the number of ranks, and the rank within the machine. The first one counts:
torchrun and mpirun may run inside a SLURM job, whose own variables then say nothing about the processes they start."""
RUN_NAMES = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "OMPI_MCA_ess_base_jobid", "PMIX_NAMESPACE", "MASTER_PORT")
"""What tells one run from another."""
MAX_RANKS = 1 << 20
_COUNT = "import torch; print('devices', torch.cuda.device_count() if torch.cuda.is_available() else 0)"


@dataclass(frozen=True, slots=True)
class RankPlace:
    """One process of a run. ``local`` is its number within its machine."""

    rank: int
    size: int
    local: int
    launcher: str
    run: str
    """Letters that are the same for all ranks of a run, and fit into a file name."""

    @property
    def is_first(self) -> bool:
        return self.rank == 0


def place_in(environment: Mapping[str, str]) -> RankPlace:
    """The place that the launcher's variables give. Raises `UsageError` where there are none, or they make no sense."""
    for launcher, rank, size, local in LAUNCHERS:
        if rank in environment and size in environment:
            number, count = _number(environment, rank), _number(environment, size)
            if not 0 <= number < count <= MAX_RANKS:
                raise UsageError(f"{rank}={number} and {size}={count} do not fit together")
            own = next((_number(environment, name) for name in local if name in environment), 0)
            return RankPlace(number, count, own, launcher, _run(environment))
    names = ", ".join(f"{rank} ({launcher})" for launcher, rank, _, _ in LAUNCHERS)
    raise UsageError(
        f"--distributed needs a launcher, and none of its variables is set: {names}; "
        "for example `torchrun --nproc-per-node=gpu --no-python precfix probe --distributed`"
    )


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment[name]
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise UsageError(f"the environment variable {name} is {text[:40]!r}, not a number")
    return int(text)


def _run(environment: Mapping[str, str]) -> str:
    text = next((environment[name] for name in RUN_NAMES if environment.get(name, "none") not in ("", "none")), "run")
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in text)[:60]


def device_of(place: RankPlace, seconds: float = 120.0) -> str:
    """The device this rank trains on: ``cuda:N``, or ``cpu`` where torch sees no GPU or cannot say.

    A launcher may show each rank one GPU only; then that one is ``cuda:0`` for every rank.
    """
    with tempfile.TemporaryDirectory(prefix="precfix-rank-") as folder:
        command = [sys.executable, "-c", _COUNT]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=seconds)
        except (subprocess.TimeoutExpired, OSError):
            return "cpu"
    words = done.stdout.split()
    count = int(words[-1]) if done.returncode == 0 and words[-2:-1] == ["devices"] and words[-1].isdigit() else 0
    return f"cuda:{place.local % count}" if count else "cpu"


def folder_name(place: RankPlace) -> str:
    """The folder, below the current one, that the ranks of this run share by default."""
    return os.path.join(".precfix", f"cluster-{place.run}")
