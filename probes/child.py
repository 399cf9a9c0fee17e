"""The process of one check: ``python -m precfix.probes.child CHECK --device cpu``.

Every event is one JSON line, written at once to the report, so that whatever ends the process leaves what was measured
before and the name of the step that was running. Nothing a library prints can get between the lines.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import json
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from .failures import classify
from .step import Check, Numbers, Task, as_check

OWN = "precfix.probes.checks"


class EventLog:
    """The event lines. Each is one write, which the operating system keeps when the process dies."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if path else 1

    def write(self, **event: object) -> None:
        os.write(self._descriptor, json.dumps(_finite(event)).encode() + b"\n")


def _finite(value: object) -> object:
    """JSON has no NaN and no infinity."""
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, dict):
        return {str(key): _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def check_named(name: str) -> Check:
    """The check in a module: one of ours by its name, any other by its dotted path."""
    return as_check(import_module(name if "." in name else f"{OWN}.{name}"))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the steps of a check; 0 also when steps raised."""
    given = _parser().parse_args(arguments)
    _prepare(given.timeout)
    report = EventLog(given.report)
    try:
        if given.threads:
            _limit_threads(given.threads)
        _run(check_named(given.check), Task(given.device, given.quick), frozenset(given.skip), report)
    except BaseException as error:
        report.write(fatal=type(error).__name__, message=str(error))
        if not isinstance(error, Exception):
            raise
    return 0


def _run(check: Check, task: Task, skip: frozenset[str], report: EventLog) -> None:
    for name, step in check.steps(task):
        if name in skip:
            continue
        report.write(begin=name)
        try:
            numbers: Numbers = step()
        except Exception as error:  # whatever a step raises is its result
            report.write(raised=name, type=type(error).__name__, message=str(error))
            if classify(type(error).__name__, str(error)).sticky:
                return  # without "done": the parent goes on in a fresh process
        else:
            report.write(end=name, numbers=numbers)
    report.write(done=True)


def _prepare(timeout: float) -> None:
    """No core files; and if nobody is left to end a hanging process, it ends itself."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.stderr is not None:
        faulthandler.enable()
        if timeout > 0:
            faulthandler.dump_traceback_later(timeout, exit=True)


def _limit_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m precfix.probes.child", description=__doc__)
    parser.add_argument("check")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--report", default="", help="file for the events; standard output by default")
    parser.add_argument("--skip", action="append", default=[], help="a step that is done")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=0.0)
    return parser


if __name__ == "__main__":
    sys.exit(main())
