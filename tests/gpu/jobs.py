"""Runs many programs, each recorded on the GPU and rehearsed, in forks of one interpreter, several at a time.

``python -m tests.gpu.jobs FOLDER OUT.jsonl [WORKERS] [SECONDS] [WORD...]`` with a folder of tests.gpu.programs; keys
that hold one of the words are run. Each line has what the GPU did, what the rehearsal said and where they differ.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import runpy
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precfix.codemod.observed.agreeing import disagreements
from precfix.codemod.observed.observed_file import parse_observation
from precfix.probes.rehearsal.record import RehearsalRecord, record_of
from precfix.probes.rehearsal.running import Gpu, Rehearsal, RehearsedRun, answers_in, settings_for

SIDES = {"real": Gpu.RECORDED, "simulated": Gpu.IGNORED}
LONGEST = 90.0
PRELOADED = """
    torch torchvision transformers timm diffusers accelerate lightning torch.distributed.fsdp torch._dynamo
    transformers.trainer transformers.models.bert.modeling_bert transformers.models.llama.modeling_llama
"""


@dataclass
class Child:
    """One program that runs."""

    key: str
    side: str
    scratch: tempfile.TemporaryDirectory[str]
    rehearsal: Rehearsal
    began: float


def main(folder: str, out: str, workers: str = "4", seconds: str = "600", *words: str) -> None:
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # CUDA itself must not be touched before the forks
    _preload()
    jobs = [job for job in json.loads((Path(folder) / "jobs.json").read_text("utf-8")) if _wanted(job[0], words)]
    ends = time.monotonic() + float(seconds)
    waiting = [(job, side) for job in jobs for side in SIDES]
    running: dict[int, Child] = {}
    answers: dict[str, dict[str, Any]] = {}
    with open(out, "w", encoding="utf-8") as stream:
        while waiting or running:
            while waiting and len(running) < int(workers) and time.monotonic() < ends:
                child, process = _started(Path(folder), *waiting.pop(0))
                running[process] = child
            if time.monotonic() >= ends:
                waiting.clear()
            for process, child in list(running.items()):
                ended, status = os.waitpid(process, os.WNOHANG)
                if not ended and time.monotonic() - child.began > LONGEST:
                    os.killpg(process, signal.SIGKILL)
                if ended:
                    del running[process]
                    both = answers.setdefault(child.key, {})
                    both[child.side] = _answer(child, status)
                    if len(both) == len(SIDES):
                        stream.write(json.dumps(_line(child.key, answers.pop(child.key))) + "\n")
                        stream.flush()
            time.sleep(0.01)


def _wanted(key: str, words: tuple[str, ...]) -> bool:
    return not words or any(word in key for word in words)


def _preload() -> None:
    for name in ("torch",) if os.environ.get("PLAIN") else PRELOADED.split():
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    import torch

    torch.set_num_threads(1)
    child = os.fork()
    if child == 0:
        if torch.cuda.is_available():
            torch.zeros(1, device="cuda")
        os._exit(0)
    if os.waitpid(child, 0)[1] and not os.environ.get("PLAIN"):  # one of the libraries has touched the GPU
        os.environ["PLAIN"] = "1"
        os.execv(sys.executable, [sys.executable, "-m", "tests.gpu.jobs", *sys.argv[1:]])


def _started(folder: Path, job: list[str], side: str) -> tuple[Child, int]:
    key, place, script = job
    scratch = tempfile.TemporaryDirectory()
    root = (folder / place).resolve()
    rehearsal = Rehearsal(["python", script], root, os.environ.get("PROFILE", "h100"), gpu=SIDES[side], steps=3)
    answers = Path(scratch.name) / "answers"
    answers.mkdir()
    process = os.fork()
    if process == 0:
        os.setpgid(0, 0)
        _be_the_program(rehearsal, answers, Path(scratch.name))
    return Child(key, side, scratch, rehearsal, time.monotonic()), process


def _be_the_program(rehearsal: Rehearsal, answers: Path, scratch: Path) -> None:
    from precfix.probes.rehearsal.inside import start
    from precfix.probes.rehearsal.inside.settings import ProcessSettings

    leave, code = os._exit, 0
    said = os.open(scratch / "said", os.O_RDWR | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(said, stream)
    os.chdir(rehearsal.root)
    sys.path.insert(0, str(rehearsal.root))
    sys.argv = [rehearsal.command[1]]
    try:
        start.start(sys.modules["torch"], ProcessSettings(**settings_for(rehearsal, answers)))
        sys.modules["torch"].manual_seed(0)
        runpy.run_path(rehearsal.command[1], run_name="__main__")
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException as died:
        code = 1
        (scratch / "error").write_text(traceback.format_exc(), "utf-8")
        sys.excepthook(type(died), died, died.__traceback__)
    finally:
        with contextlib.suppress(Exception):
            start.SESSION[0].flush()
        leave(code)


def _answer(child: Child, status: int) -> dict[str, Any]:
    scratch = Path(child.scratch.name)
    error, said = scratch / "error", scratch / "said"
    run = RehearsedRun(answers_in(scratch / "answers"), os.waitstatus_to_exitcode(status))
    answer = {
        "record": record_of(child.rehearsal, run, "test"),
        "status": run.status,
        "error": error.read_text("utf-8")[-1500:] if error.exists() else "",
        "said": said.read_text("utf-8", "replace")[-300:] if run.status and said.exists() else "",
        "seconds": round(time.monotonic() - child.began, 2),
    }
    child.scratch.cleanup()
    return answer


def _line(key: str, both: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    line: dict[str, Any] = {"key": key}
    for side, answer in both.items():
        record: RehearsalRecord = answer["record"]
        line[side] = {
            **{name: answer[name] for name in ("status", "error", "said", "seconds")},
            "simulated": record.device["simulated"],
            "steps": record.steps,
            "failures": [_failure(each) for each in record.failures],
            "losses": record.training.get("losses", [])[:3],
            "notes": record.notes,
        }
    line["wrong"] = list(_wrong(both["real"]["record"], both["simulated"]["record"]))
    return line


def _failure(failure: Mapping[str, Any]) -> str:
    row = (failure.get("location") or {}).get("row")
    mark = " (assumed)" if failure["assumed"] else ""
    return f"{failure['filename']}:{row} {failure['kind']} {failure['error_type']}: {failure['error'][:200]}{mark}"


def _wrong(real: RehearsalRecord, simulated: RehearsalRecord) -> Iterator[str]:
    for each in (real, simulated):
        each.training.setdefault("losses", [])
    try:
        yield from disagreements(*(parse_observation(each.dump(), "the record") for each in (real, simulated)))
    except Exception as error:
        yield f"not compared: {type(error).__name__}: {error}"


if __name__ == "__main__":
    main(*sys.argv[1:])
