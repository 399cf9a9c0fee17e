"""What a record says: sentences and an exit code."""

from __future__ import annotations

from collections.abc import Sequence

from .record import RehearsalRecord
from .running import RehearsedRun

NOTHING, RAISED, UNSEEN = 0, 1, 3
TAIL = 12
"""Last lines of what the program said on standard error, shown when it died of something else."""
TRACEBACK = "Traceback (most recent call last)"
_LIMITS = {
    "time": "the time limit ended the program",
    "memory": "the memory limit ended the program",
    "interrupted": "the program was interrupted",
}


def exit_code(record: RehearsalRecord) -> int:
    """0: nothing raised; 1: something would; 3: the program did not get to its steps, so nothing is known."""
    if record.failures:
        return RAISED
    if record.ended in ("error", "interrupted") or record.steps == 0:
        return UNSEEN
    return NOTHING


def closing(record: RehearsalRecord, run: RehearsedRun) -> str:
    """One sentence on how it ended."""
    if not record.torch and not record.failures and record.ended not in _LIMITS and run.status == 0:
        return "the command never imported torch where it could be watched, so nothing was seen"
    count = len(record.failures)
    seen = f"{count} failure{'' if count == 1 else 's'}" if count else "nothing raised"
    steps = f"{record.steps} optimizer step{'' if record.steps == 1 else 's'}"
    device = f"as on {record.device['profile']}" if record.device.get("simulated") else "on this machine"
    sentence = f"{seen} in {steps} {device}"
    if record.ended in _LIMITS:
        return f"{sentence}; {_LIMITS[record.ended]}{_before_steps(record)}"
    if record.ended == "error":
        before = "" if record.torch else " before it imported torch where it could be watched"
        return f"{sentence}; the program died{before}: {_first_line(record.error) or _last_line(run)}"
    return sentence if record.steps else f"{sentence}: the program made no optimizer step, so its training was not seen"


def _before_steps(record: RehearsalRecord) -> str:
    return "" if record.steps else " before its first optimizer step"


def _last_line(run: RehearsedRun) -> str:
    if run.status == -9:
        return "it was killed, as happens where memory runs out"
    if run.status < 0:
        return f"signal {-run.status} ended it"
    return next(iter(reversed(tail(run.errors))), "") or f"exit code {run.status}"


def _first_line(text: str) -> str:
    """The first line; where it only introduces a traceback, the last one as well."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and TRACEBACK in text:
        lines = [f"{lines[0]} {lines[-1]}"]
    return lines[0].rstrip(".") if lines else ""


def tail(errors: bytes) -> Sequence[str]:
    """The end of standard error, as far as it is text."""
    return errors[-20000:].decode("utf-8", "replace").rstrip().splitlines()[-TAIL:]
