"""Runs the user's command with every Python of it instrumented, within limits, and says how it ended."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from .family import ProcessFamily
from .simulated import SIMULATED, Simulated

_STARTS_PYTHON = re.compile(
    r"env|(i?python|pypy)[0-9.]*|torchrun|accelerate|accelerate-launch|deepspeed|lightning|fabric|composer|horovodrun|jupyter"
    r"|jupyter-[a-z]+|papermill|poetry|pipenv|uv|uvx|pdm|hatch|rye|pixi|conda|mamba|micromamba"
)
_FOR_PYTHON = """case ":$PYTHONPATH:" in
  *":{inject}:"*) ;;
  *) PYTHONPATH="{inject}${{PYTHONPATH:+:$PYTHONPATH}}"; export PYTHONPATH ;;
esac
PRECFIX_REHEARSAL="{settings}"; export PRECFIX_REHEARSAL
"""
_FOR_ENV = """case "$1 $2" in
  "-i -"*|"- -"*) ;;
  "-i "*|"- "*|"--ignore-environment "*) shift; set -- -i PYTHONPATH="{inject}" PRECFIX_REHEARSAL="{settings}" "$@" ;;
esac
"""
"""``env -i python`` starts with what is said here alone."""
_STAND_IN = """#!/bin/sh
{first}found=
IFS=:
for folder in $PATH; do
  [ "$folder" = "{own}" ] || [ -d "$folder/{name}" ] || [ ! -x "$folder/{name}" ] || {{ found=$folder/{name}; break; }}
done
unset IFS
exec "${{found:-{name}}}" "$@"
"""


INJECT, INSIDE = (Path(__file__).parent / name for name in ("inject", "inside"))
GRACE = 8.0
"""Seconds between asking a process to end and ending it."""
POLL = 0.1


class Gpu(str, Enum):
    """What a GPU that torch finds in this machine means for the run."""

    RECORDED = "recorded"
    """It is used, and nothing is simulated."""
    REFUSED = "refused"
    """Nothing is run: it would have been simulated although it could be used."""
    REQUIRED = "required"
    """It is used; without one nothing is run."""
    IGNORED = "ignored"
    """All is simulated as if it were not there."""


@dataclass(frozen=True)
class RunNotebook:
    """A notebook that the command executes."""

    python: str
    path: Path
    code: str
    """Its cells as one module."""


@dataclass(frozen=True)
class Rehearsal:
    command: Sequence[str]
    root: Path
    """The project: what is below it is the user's, and named from here."""
    profile: str = "cuda"
    device: Simulated | None = None
    """What is simulated where that is none of the known profiles."""
    gpu: Gpu = Gpu.IGNORED
    steps: int = 3
    time_limit: float = 600.0
    memory_limit: int = 0
    """Bytes; 0 is no limit."""
    no_write: bool = False
    shadow: tuple[str, ...] = ()
    """Patterns of the modules to compare with a float64 shadow; without any there is no shadow."""
    notebook: RunNotebook | None = None
    """What is run in place of the command."""
    folder: Path | None = None
    """Where the command runs; without it at the root."""


@dataclass(frozen=True)
class RehearsedRun:
    """What came of it. ``ended`` is "" when the program ended itself."""

    answers: Sequence[Mapping[str, object]] = ()
    status: int = 0
    ended: str = ""
    output: bytes = b""
    errors: bytes = b""


def run(rehearsal: Rehearsal) -> RehearsedRun:
    """Run the command; never raises for what the program does."""
    with _scratch() as scratch:
        answers = scratch / "answers"
        answers.mkdir()
        environment = _environment(rehearsal, scratch, answers)
        began, family = time.monotonic(), ProcessFamily()
        with (scratch / "out").open("wb") as output, (scratch / "err").open("wb") as errors:
            process = subprocess.Popen(
                _words(rehearsal, scratch),
                cwd=rehearsal.folder or rehearsal.root,
                env=environment,
                stdin=_input(),
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            family.leader = process.pid
            ended = _wait(process, family, rehearsal, began, answers)
        return RehearsedRun(
            answers_in(answers),
            process.returncode,
            ended,
            (scratch / "out").read_bytes(),
            (scratch / "err").read_bytes(),
        )


def _input() -> int | None:
    """What is piped in is the program's; a terminal is not, as the questions that it would ask are not shown."""
    try:
        return subprocess.DEVNULL if os.isatty(0) else None
    except OSError:
        return subprocess.DEVNULL


def _words(rehearsal: Rehearsal, scratch: Path) -> list[str]:
    notebook = rehearsal.notebook
    if notebook is None:
        return list(rehearsal.command)
    code = scratch / "notebook.py"
    code.write_text(notebook.code, "utf-8")
    return [notebook.python, str(INSIDE / "notebook.py"), str(code), str(notebook.path)]


@contextmanager
def _scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="precfix-rehearsal-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def settings_for(rehearsal: Rehearsal, answers: Path) -> dict[str, Any]:
    """What each process of the command is asked, as data."""
    device = rehearsal.device or SIMULATED[rehearsal.profile]
    return {
        "root": str(rehearsal.root),
        "answers": str(answers),
        "device": {
            "profile": rehearsal.profile,
            "type": device.type,
            "simulated": device.type != "cpu",
            "name": device.name,
            "capability": device.capability,
            "memory": device.memory << 30,
            "native_bf16": device.native_bf16,
            "hip": device.hip,
            "missing": dict(device.missing),
        },
        "steps": rehearsal.steps,
        "no_write": rehearsal.no_write,
        "began": time.time(),
        "gpu": rehearsal.gpu.value,
        "shadow": list(rehearsal.shadow),
    }


def _environment(rehearsal: Rehearsal, scratch: Path, answers: Path) -> dict[str, str]:
    file = scratch / "settings.json"
    file.write_text(json.dumps(settings_for(rehearsal, answers)), "utf-8")
    paths = [str(INJECT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    search = os.pathsep.join([*os.environ.get("PATH", "").split(os.pathsep), str(Path(sys.executable).parent)])
    first = stand_ins(scratch, INJECT, file, search)
    return {
        **os.environ,
        "PRECFIX_REHEARSAL": str(file),
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": search if first is None else os.pathsep.join([str(first), search]),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _wait(
    process: subprocess.Popen[bytes], family: ProcessFamily, rehearsal: Rehearsal, began: float, answers: Path
) -> str:
    """Until it ends, or a limit ends it: "time", "memory" or "interrupted"."""
    try:
        with ended_like_ctrl_c():
            while process.poll() is None or _trains_elsewhere(process.returncode, family, answers):
                if rehearsal.time_limit and time.monotonic() - began > rehearsal.time_limit:
                    _end(process, family)
                    return "time"
                if rehearsal.memory_limit and family.memory() > rehearsal.memory_limit:
                    _end(process, family)
                    return "memory"
                time.sleep(POLL)
    except KeyboardInterrupt:
        _end(process, family)
        return "interrupted"
    family.signal(signal.SIGKILL)  # what it has left behind
    return ""


def _trains_elsewhere(status: int, family: ProcessFamily, answers: Path) -> bool:
    """Whether the command has ended well, but what it started has yet to train, or does: a daemon, a job of a shell."""
    steps = {each.get("process"): each.get("steps") for each in answers_in(answers)} if status == 0 else {}
    if status or steps.get(family.leader):
        return False
    living = family.living()
    return any(steps.get(each) for each in living) if any(steps.values()) else bool(living)


@contextmanager
def ended_like_ctrl_c() -> Iterator[None]:
    """Whoever ends precfix itself ends the program too, which would go on alone: it is in a session of its own."""

    def interrupt(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN if sys.exc_info()[0] is KeyboardInterrupt else before)


def _end(process: subprocess.Popen[bytes], family: ProcessFamily) -> None:
    """Ask first, so that exit handlers run; then insist."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        family.signal(number)
        try:
            process.wait(GRACE)
            break
        except subprocess.TimeoutExpired:
            continue
    family.signal(signal.SIGKILL)


def answers_in(folder: Path) -> list[Mapping[str, object]]:
    """What the processes wrote; one that died while writing has left nothing."""
    found = []
    for file in sorted(folder.glob("*.json"), key=lambda path: int(path.stem)):
        try:
            found.append(json.loads(file.read_text("utf-8")))
        except (OSError, ValueError):
            continue
    return found


def stand_ins(folder: Path, inject: Path, settings: Path, search: str) -> Path | None:
    """A folder to look for programs in first; None where the system runs no such scripts."""
    if os.name != "posix" or any(each in f"{folder}{inject}" for each in '"$`\\:'):
        return None
    own = folder / "bin"
    own.mkdir()
    for name in sorted(set(_names(search))):
        script = own / name
        first = (_FOR_ENV if name == "env" else _FOR_PYTHON).format(inject=inject, settings=settings)
        script.write_text(_STAND_IN.format(first=first, own=own, name=name), "utf-8")
        script.chmod(0o755)
    return own


def _names(search: str) -> Iterator[str]:
    for folder in search.split(os.pathsep):
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        yield from filter(_STARTS_PYTHON.fullmatch, names)
