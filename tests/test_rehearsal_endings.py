"""However a rehearsed program ends, one sentence says so and nothing of it is left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from precfix.probes.rehearsal.memory import used_by_group
from precfix.probes.rehearsal.record import Record, record_of
from precfix.probes.rehearsal.running import Rehearsal, Run
from precfix.probes.rehearsal.verdict import closing, exit_code

pytest.importorskip("torch")
ODD_ENDS = """
import os, sys
import torch
child = os.fork()
if child == 0:
    torch.ones(2)
    os._exit(0)
os.waitpid(child, 0)
sys.stdout.buffer.write(bytes(range(256)))
sys.stdout.buffer.flush()
torch.nn.Linear(4, 4).bfloat16().cuda()(torch.randn(2, 4, device="cuda"))
os._exit(7)
"""
NOTEBOOK = [
    "!pip install anything\nimport torch",
    "x = torch.ones(2, device='cuda').half()\nx @ torch.ones(2, device='cuda')",
]


def rehearse(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    """``precfix rehearse`` with these words."""
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])}
    start = [sys.executable, "-m", "precfix.codemod", "rehearse"]
    return subprocess.run([*start, *words], cwd=folder, env=environment, capture_output=True, timeout=120)


def last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stdout.decode().rstrip().splitlines()[-1]


def test_a_program_that_forks_writes_bytes_and_leaves_at_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ODD_ENDS, "utf-8")
    (tmp_path / "run.sh").write_text("exec python train.py\n", "utf-8")
    done = rehearse(tmp_path, "-v", "--", "sh", "run.sh")
    assert done.returncode == 1
    assert "1 failure" in last_line(done)
    assert bytes(range(256)) in done.stderr


def test_the_time_limit_ends_a_program_that_waits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(100)\n", "utf-8")
    done = rehearse(tmp_path, "--time-limit", "1", "--", "python", "train.py")
    assert (done.returncode, "the time limit ended the program" in last_line(done)) == (3, True)


def test_a_program_that_dies_of_something_else_shows_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('nothing.yaml')\n", "utf-8")
    done = rehearse(tmp_path, "--", "python", "train.py")
    assert done.returncode == 3
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'nothing.yaml'" in done.stderr.decode()


@pytest.mark.parametrize("command", [["nothing-of-that-name"], ["missing.ipynb"]])
def test_a_command_that_cannot_be_run_is_bad_usage(tmp_path: Path, command: list[str]) -> None:
    done = rehearse(tmp_path, "--", *command)
    assert done.returncode == 2
    assert len(done.stderr.decode().splitlines()) == 1


def test_the_cells_of_a_notebook_are_run_in_order(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in NOTEBOOK]
    cells.insert(1, {"cell_type": "markdown", "source": "words", "metadata": {}})
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook), "utf-8")
    done = rehearse(tmp_path, "--", "jupyter", "nbconvert", "--execute", "run.ipynb")
    assert done.returncode == 1, done.stderr.decode()
    assert "run.ipynb:cell 3:2" in done.stdout.decode()


def record(run: Run, steps: int = 0) -> Record:
    return record_of(Rehearsal(["python", "train.py"], Path("/nowhere"), steps=steps), run, "test")


@pytest.mark.parametrize(
    ("run", "words", "code"),
    [
        (Run([{"torch": "2.13.0", "steps": 3, "ended": "steps"}]), "nothing raised in 3 optimizer steps", 0),
        (Run([{"torch": "2.13.0", "steps": 2}], ended="time"), "the time limit ended the program", 0),
        (Run([{"torch": "2.13.0", "steps": 0}], ended="memory"), "the memory limit ended the program", 3),
        (Run([{"torch": "2.13.0"}], ended="interrupted"), "the program was interrupted", 3),
        (Run([{"torch": "2.13.0"}], status=-11), "signal 11 ended it", 3),
        (Run([], status=-9), "it was killed, as happens where memory runs out", 3),
        (Run([]), "never imported torch", 0),
    ],
)
def test_the_closing_sentence(run: Run, words: str, code: int) -> None:
    seen = record(run)
    assert words in closing(seen, run)
    assert exit_code(seen) == code


def test_memory_of_a_group_is_read_from_the_system() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("only Linux says it there")
    assert used_by_group(os.getpgrp()) > 1 << 20
    assert used_by_group(0x7FFFFFFF) == 0
