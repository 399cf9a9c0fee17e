"""Runs programs and precfix in processes of their own, forked from one that has imported the libraries."""

from __future__ import annotations

import os
import pickle
import re
import runpy
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
TIME_LIMIT = 120
"""Seconds for one program; they take about one."""
_DTYPES = re.compile(r"dtype|scalar type|BFloat16|Half|\bDouble\b|without overflow|c10::|same type")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended. ``error`` is empty when it ran; ``refused`` says that torch named dtypes as the reason."""

    error: str = ""
    refused: bool = False
    path: str = ""
    row: int = 0
    functions: Mapping[str, frozenset[int]] | None = None
    """File -> first rows of the functions that were entered, for a run that was watched."""


def run(folder: Path, watch: bool = False) -> Ran:
    """Run ``train.py`` of a folder."""
    answer = forked(lambda: _run(folder, watch))
    return answer if isinstance(answer, Ran) else Ran(f"ended without an answer: {answer}")


def forked(task: Callable[[], T]) -> T | str:
    """What ``task`` returns in a child process; a sentence where it ended without an answer."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(task, reading, writing)
    os.close(writing)
    data = b""
    try:
        while select.select([reading], [], [], TIME_LIMIT)[0]:
            piece = os.read(reading, 1 << 16)
            if not piece:
                break
            data += piece
        else:
            os.kill(child, signal.SIGKILL)
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    return pickle.loads(data) if data else f"status {status}"


def _answer(task: Callable[[], object], reading: int, writing: int) -> None:
    code = 1
    try:
        os.close(reading)
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        result = pickle.dumps(task())
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(result)
        code = 0
    finally:
        os._exit(code)


def _run(folder: Path, watch: bool) -> Ran:
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    entered: dict[str, set[int]] = {}
    if watch:
        sys.setprofile(lambda frame, event, _: _enter(entered, folder, frame, event))
    try:
        runpy.run_path("train.py", run_name="__main__")
    except Exception as error:
        rows = [
            (Path(item.filename).name, item.lineno or 0)
            for item in traceback.extract_tb(error.__traceback__)
            if Path(item.filename).parent == folder or item.filename == "train.py"
        ]
        path, row = rows[-1] if rows else ("", 0)
        text = f"{type(error).__name__}: {error}"
        return Ran(text[:300], bool(_DTYPES.search(text)), path, row)
    finally:
        sys.setprofile(None)
    return Ran(functions={name: frozenset(rows) for name, rows in entered.items()})


def _enter(entered: dict[str, set[int]], folder: Path, frame: object, event: str) -> None:
    code = frame.f_code  # type: ignore[attr-defined]
    if event == "call" and code.co_filename.startswith(str(folder)):
        entered.setdefault(Path(code.co_filename).name, set()).add(code.co_firstlineno)
