"""What is imported before the first file is read: counted, not timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .project_tree import write_tree

PLAIN = "def add(one, two):\n    return one + two\n"
LOOP = """import torch

def train(model, optimizer, batches):
    scaler = torch.amp.GradScaler("cuda")
    for x in batches:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
"""
HEAVY = {"torch", "libcst", "rich", "tomlkit", "typer", "numpy", "pydantic"}


def imported_by(*words: object) -> set[str]:
    """The modules that a finished command had imported."""
    program = (
        "import atexit, os, sys\n"
        "atexit.register(lambda: os.write(2, ' '.join(sys.modules).encode()))\n"
        f"sys.argv = ['precfix', *{[str(word) for word in words]!r}]\n"
        "from precfix.codemod.__main__ import main\nmain()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return set(done.stderr.split())


def test_the_version_is_told_without_anything_else() -> None:
    before = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    new = imported_by("--version") - set(before.stdout.split())
    own = {name for name in new if name.startswith("precfix")}
    assert own == {"precfix", "precfix.codemod", "precfix.codemod.__main__", "precfix.codemod.version"}
    assert new - own <= {"atexit", "__future__"}


@pytest.mark.parametrize("text", [PLAIN, LOOP], ids=("nothing of precision", "a training loop"))
def test_a_small_project_is_checked_without_heavy_libraries(tmp_path: Path, text: str) -> None:
    project = write_tree(tmp_path, {"train.py": text})
    names = imported_by("check", project)
    assert "precfix.codemod.engine" in names
    assert {name.partition(".")[0] for name in names} & HEAVY == set()
