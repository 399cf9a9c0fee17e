"""A rehearsal as a child process, for what needs its record: precfix itself runs nothing of a project."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import UsageError

if TYPE_CHECKING:
    from ..observed.observation import Observation


LONGEST_END = 30.0
"""Seconds that a rehearsal may take to end its program."""
IN_FOLDER = 'cd "$1" && shift && exec "$@"'


def rehearsed(command: Sequence[str], root: Path, below: str = ".", steps: int = 3) -> Observation:
    """What ``precfix rehearse`` sees of a command in the folder ``below`` the root of a project.

    Raises UsageError where it cannot be rehearsed.
    """
    from ..observed.comparing import DIED
    from ..observed.observed_file import load_observation

    with tempfile.TemporaryDirectory(prefix="precfix-observed-") as scratch:
        saved = Path(scratch) / "observed.json"
        words = ["rehearse", "-q", f"--steps={steps}", f"--save={saved}", "--", *_starting(command, below)]
        done = _run([*_precfix(), *words], root)
        if not saved.is_file():
            said = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
            raise UsageError(f"the command cannot be rehearsed: {said.removeprefix('precfix: ')}")
        observation = replace(load_observation(saved), command=tuple(command))
        if observation.ended not in DIED:
            return observation
        closing = done.stdout.strip().splitlines()[-1:]
        return replace(observation, error=closing[0] if closing else observation.error)


def _run(words: Sequence[str], root: Path) -> subprocess.CompletedProcess[str]:
    """As ``subprocess.run``, but an interrupted child has the time to end what it has started."""
    from ...probes.rehearsal.running import ended_like_ctrl_c

    quiet = subprocess.PIPE
    with (
        ended_like_ctrl_c(),
        subprocess.Popen(
            words, cwd=root, stdin=subprocess.DEVNULL, stdout=quiet, stderr=quiet, text=True, errors="replace"
        ) as process,
    ):
        try:
            output, errors = process.communicate()
        except BaseException:
            process.terminate()
            process.wait(LONGEST_END)
            raise
    return subprocess.CompletedProcess(words, process.returncode, output, errors)


def _starting(command: Sequence[str], below: str) -> list[str]:
    """The command, begun in its folder: files are named from the root, which the rehearsal takes for the project."""
    return [*command] if below == "." else ["sh", "-c", IN_FOLDER, "sh", below, *command]


def _precfix() -> list[str]:
    """This precfix, away from modules of the project where Python can be told so."""
    safely = ["-P"] if sys.version_info >= (3, 11) else []
    return [sys.executable, *safely, "-m", "precfix.codemod"]
