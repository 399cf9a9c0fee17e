"""Clusters for real: torchrun on this machine, over gloo, with a faked rank, a dying one, and no shared folder."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .cluster_rank import DYING, FAKED
from .fixture_cases import FIXTURES, REPOSITORY

if importlib.util.find_spec("torch") is None:
    pytest.skip("needs PyTorch", allow_module_level=True)
if not sys.platform.startswith("linux"):
    pytest.skip("torchrun over loopback is tried on Linux", allow_module_level=True)

SCRIPT = REPOSITORY / "tests" / "cluster_rank.py"
SECONDS = 120


def torchrun(ranks: int, folder: str, *, wait: float = 60, probe: float = 0, **variables: str) -> tuple[int, str, str]:
    """Exit code and output of ``ranks`` processes on loopback."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
    command += [str(SCRIPT), folder, str(wait), str(probe)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    return done.returncode, done.stdout, done.stderr


def launched(ranks: int, folder: str, **variables: str) -> tuple[int, str]:
    """The same started without torchrun's own process, with variables that it sets; the first rank's output."""
    common = {**os.environ, "OMP_NUM_THREADS": "1", "WORLD_SIZE": str(ranks), **variables}
    command = [sys.executable, str(SCRIPT), folder, "60", "0"]
    processes = [
        subprocess.Popen(
            command,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                **common,
                **variables,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(ranks)
    ]
    printed = [process.communicate(timeout=SECONDS)[0] for process in processes]
    assert printed[1:] == [""] * (ranks - 1), "only the first rank prints"
    return max(process.returncode for process in processes), printed[0]


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def test_two_ranks_whose_profiles_travel_without_a_shared_folder(tmp_path: Path) -> None:
    code, out, err = torchrun(2, str(tmp_path / "of-rank-{rank}"))
    assert code == 0, err
    assert len(out.splitlines()) == 6, "only the first rank prints"
    assert "All ranks are alike." in out
    assert "The regime every rank supports: bf16-mixed" in out
    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*.json"))
    assert written == ["of-rank-0/rank-00000.json", "of-rank-0/rank-00001.json", "of-rank-1/rank-00001.json"]


def test_four_ranks_one_of_them_faked(tmp_path: Path) -> None:
    """Through the shared folder alone: without an address nothing is sent, and no rank imports torch."""
    code, out = launched(4, str(tmp_path), **{FAKED: f"2={FIXTURES / 'profiles' / 't4.json'}"})
    assert code == 0
    assert "bf16: native on ranks 0-1, 3, emulated on rank 2." in out
    assert "The regime every rank supports: fp16-mixed" in out


def test_a_dying_rank_is_named_and_the_others_answer(tmp_path: Path) -> None:
    started = time.monotonic()
    code, out, _ = torchrun(2, str(tmp_path), probe=1, **{DYING: "1"})
    assert time.monotonic() - started < 60
    assert code != 0
    assert "Rank 1 has left no profile" in out
    assert "The regime every rank that answered supports: bf16-mixed" in out


def test_the_launchers_sigterm_during_the_own_probe_lets_it_end(tmp_path: Path) -> None:
    environment = {**os.environ, "RANK": "0", "WORLD_SIZE": "2"}
    environment.pop("MASTER_ADDR", None)
    command = [sys.executable, str(SCRIPT), str(tmp_path), "60", "3"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    time.sleep(1.5)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "NVIDIA A100" in out
    assert "Rank 1 has left no profile" in out
