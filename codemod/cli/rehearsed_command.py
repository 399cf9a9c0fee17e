"""The command of a rehearsal: notebooks are run cell by cell, all else as it is typed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ..model import UsageError

_RUNNERS = ("jupyter", "jupyter-nbconvert", "jupyter-execute", "jupyter-run", "papermill")
LARGEST = 64 << 20


def root_of(command: Sequence[str]) -> Path:
    """The folder that holds the current one and the programs that the command names above it: ``../train.py``."""
    here = Path.cwd().resolve()
    named = [Path(word).resolve().parent for word in command if word.startswith("../") and Path(word).is_file()]
    common = Path(os.path.commonpath([here, *named]))
    return common if common not in (Path(common.anchor), Path.home().parent) else here


def notebook_of(command: Sequence[str]) -> Path | None:
    """The notebook that a command executes; None for any other command."""
    runs_notebooks = Path(command[0]).name in _RUNNERS or command[0].endswith(".ipynb")
    if not runs_notebooks:
        return None
    return next((Path(word) for word in command if word.endswith(".ipynb")), None)


def code_of(notebook: Path) -> str:
    """The notebook as one module. Raises UsageError where it cannot be read."""
    from ..source.notebook_cells import Notebook, NotebookError

    try:
        if notebook.stat().st_size > LARGEST:
            raise UsageError(f"{str(notebook)!r} is larger than {LARGEST >> 20} MiB")
        return Notebook.parse(notebook.read_text("utf-8")).virtual
    except (NotebookError, UnicodeDecodeError) as error:
        raise UsageError(f"{str(notebook)!r} is not a notebook that can be read: {error}") from error


def python() -> str:
    """The Python that a user would get, else the one that runs precfix."""
    return shutil.which("python") or shutil.which("python3") or sys.executable
