"""Failures as data: what torch, a driver or the operating system says, which class that is, and what to do.

``failures.txt`` holds them; the first one that matches wins.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .step import StepFailure

MAX_MESSAGE = 400


@dataclass(frozen=True, slots=True)
class FailurePattern:
    """A class of failures: how it shows in ``TypeName: message``, and what to do."""

    kind: str
    text: str
    sentence: str
    sticky: bool = False


def _patterns() -> Iterator[FailurePattern]:
    text = (Path(__file__).parent / "failures.txt").read_text("utf-8")
    for block in text.split("\n\n")[1:]:
        name, shown, sentence = block.splitlines()
        yield FailurePattern(name.removesuffix(" sticky"), shown, sentence, name.endswith(" sticky"))


PATTERNS = tuple(_patterns())
_COMPILED = tuple((pattern, re.compile(pattern.text)) for pattern in PATTERNS)

SIGNALS = {
    "SIGSEGV": ("segfault", "PyTorch or a library under it read memory it does not own; update or reinstall PyTorch"),
    "SIGBUS": ("bus-error", "memory went away under PyTorch; look at the size of /dev/shm and at the disk"),
    "SIGILL": (
        "illegal-instruction",
        "PyTorch uses an instruction that this CPU does not have; install a build for this CPU",
    ),
    "SIGFPE": ("arithmetic-error", "a library divided by zero; update PyTorch"),
    "SIGABRT": ("abort", "a library gave up; its last words are in the message"),
    "SIGKILL": ("killed", "the system killed it, most likely for want of memory; look at the memory limit (cgroup)"),
    "SIGTERM": ("terminated", "something asked it to end; look at the scheduler's time and memory limits"),
}
TIMED_OUT = "timeout"


def classify(kind: str, message: str) -> StepFailure:
    """The failure behind an exception: ``kind`` is the name of its type."""
    text = f"{kind}: {message}"
    for pattern, compiled in _COMPILED:
        if compiled.search(text):
            return StepFailure(pattern.kind, pattern.sentence, _short(text), pattern.sticky)
    return StepFailure("error", f"it raised {_short(text, 160)}", _short(text))


def of_exit(code: int, last_words: str = "") -> StepFailure:
    """The failure behind the end of a process: negative for a signal, as `subprocess` has it."""
    words = _short(last_words)
    if code >= 0:
        said = classify("Process", last_words) if last_words else None
        if said is not None and said.kind != "error":
            return said
        return StepFailure("exit", f"the process ended itself with exit code {code} before it was done", words)
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    kind, sentence = SIGNALS.get(name, ("signal", "the system ended it"))
    return StepFailure(kind, f"it was killed by {name}: {sentence}", words)


def timed_out(seconds: float) -> StepFailure:
    """The failure of a process that did not come back."""
    return StepFailure(
        TIMED_OUT,
        f"no answer within {seconds:.0f} s, so it was ended; the driver may hang, or the machine be overloaded "
        "(--timeout gives it more time)",
    )


def _short(text: str, size: int = MAX_MESSAGE) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= size else one_line[: size - 3] + "..."
