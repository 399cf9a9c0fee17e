"""Rehearses many scripts in forks of one interpreter, so that torch is imported once.

``python -m tests.rehearsal_runs``: standard input is a JSON list of [key, folder, script, profile, steps];
standard output is one JSON object per line with the key, the record, and how the script ended. Not a test.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from precfix.probes.rehearsal.record import RehearsalRecord, record_of
from precfix.probes.rehearsal.running import Rehearsal, RehearsedRun, answers_in, settings_for

from .warm_torch import python

HAS_COLUMNS = sys.version_info >= (3, 11)
"""Whether Python says which expression of a line is running."""
Job = tuple[str, str, str, str, int]


def records(jobs: Sequence[Job], timeout: float = 600.0) -> dict[str, dict[str, Any]]:
    """Key -> {"record", "error", "code"}; all in one child process."""
    words = [python(), "-m", "tests.rehearsal_runs"]
    done = subprocess.run(words, input=json.dumps(jobs), capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["key"]: line for line in lines}


def rehearsed(job: Job) -> tuple[RehearsalRecord, str]:
    """The record of one script, and the traceback it died with."""
    _, folder, script, profile, steps = job
    with tempfile.TemporaryDirectory() as scratch:
        rehearsal = Rehearsal(["python", script], Path(folder), profile, steps=steps)
        answers = Path(scratch) / "answers"
        answers.mkdir()
        child = os.fork()
        if child == 0:
            _be_the_program(rehearsal, answers, Path(scratch) / "error")
        _, status = os.waitpid(child, 0)
        error = Path(scratch) / "error"
        text = error.read_text("utf-8") if error.exists() else ""
        run = RehearsedRun(answers_in(answers), os.waitstatus_to_exitcode(status))
        return record_of(rehearsal, run, "test"), text


def _be_the_program(rehearsal: Rehearsal, answers: Path, error: Path) -> None:
    from precfix.probes.rehearsal.inside import start
    from precfix.probes.rehearsal.inside.settings import ProcessSettings

    leave = os._exit
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1) if os.environ.get("LOUD") else (0, 1, 2):
        os.dup2(quiet, stream)
    os.chdir(rehearsal.root)
    sys.path.insert(0, str(rehearsal.root))
    sys.argv = [rehearsal.command[1]]
    code = 0
    try:
        start.start(sys.modules["torch"], ProcessSettings(**settings_for(rehearsal, answers)))
        runpy.run_path(rehearsal.command[1], run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as died:
        code = 1
        error.write_text(traceback.format_exc(), "utf-8")
        sys.excepthook(type(died), died, died.__traceback__)
    finally:
        start.SESSION[0].flush()
        leave(code)


def main(jobs: Iterable[Job]) -> None:
    import torch

    torch.set_num_threads(1)
    for job in jobs:
        began = time.monotonic()
        record, error = rehearsed(tuple(job))
        seconds = round(time.monotonic() - began, 2)
        line = {"key": job[0], "record": json.loads(record.dump()), "error": error, "seconds": seconds}
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(json.load(sys.stdin))
