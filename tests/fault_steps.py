"""Faults at the calls that a piece of code makes into the operating system. Used in a child process that then ends.

Every builtin of `os` that can touch a file is a step, and so is every read, write and close of a file from `os.fdopen`:
the steps are found by counting, no list of them is kept.
"""

from __future__ import annotations

import io
import os
import pathlib
import signal
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from errno import errorcode

_NO_FILES = (
    *("fspath", "getpid", "getppid", "kill", "fork", "_exit", "abort", "waitpid", "urandom", "getrandom", "strerror"),
    *("getuid", "geteuid", "getgid", "getegid", "umask", "register_at_fork", "sched_yield", "cpu_count"),
)
"""Builtins of `os` that touch no file."""


def holders_of(name: str) -> list[object]:
    """Where a function of `os` is looked up: until Python 3.10 `pathlib` keeps those that it uses."""
    kept = getattr(pathlib, "_normal_accessor", None)
    return [os, kept] if kept is not None and getattr(kept, name, None) is getattr(os, name) else [os]


@dataclass(frozen=True)
class Call:
    """One step: its number (from 0), the function, the name of the file it is about, and how to make the call."""

    number: int
    name: str
    file: str
    run: Callable[[], object]
    descriptor: int = -1
    data: bytes = b""


@dataclass
class Steps:
    """Counts the steps and asks the fault what to do at each of them."""

    fault: Callable[[Steps, Call], object]
    taken: list[tuple[str, str]] = field(default_factory=list)
    """Function and file name of the steps so far."""
    _paused: bool = False
    _files: dict[int, str] = field(default_factory=dict)

    def install(self) -> None:
        """Begin. The functions of `os` stay replaced for the rest of the process."""
        for name, real in list(vars(os).items()):
            if isinstance(real, types.BuiltinFunctionType) and name not in _NO_FILES and name[:1].islower():
                step = self._wrapped(name, real)
                for holder in holders_of(name):
                    setattr(holder, name, step)
        os.fdopen = self._fdopen  # type: ignore[assignment]

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Calls inside are no steps."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def take(self, call: Call) -> object:
        self.taken.append((call.name, call.file))
        return self.fault(self, call)

    def _wrapped(self, name: str, real: Callable[..., object]) -> Callable[..., object]:
        def step(*arguments: object, **named: object) -> object:
            if self._paused:
                return real(*arguments, **named)
            file = self._file_of(arguments[1:] if name in ("replace", "rename", "link") else arguments)
            result = self.take(Call(len(self.taken), name, file, lambda: real(*arguments, **named)))
            if name == "open" and isinstance(result, int):
                self._files[result] = file
            return result

        return step

    def _file_of(self, arguments: tuple[object, ...]) -> str:
        about = arguments[0] if arguments else ""
        if isinstance(about, int):
            return self._files.get(about, "")
        return os.path.basename(os.fsdecode(about)) if isinstance(about, (str, bytes, os.PathLike)) else ""

    def _fdopen(self, descriptor: int, mode: str = "r", closefd: bool = True) -> io.BufferedIOBase:
        raw = _SteppedFile(descriptor, mode.replace("b", ""), closefd=closefd)
        raw.steps, raw.file = self, self._files.get(descriptor, "")
        return io.BufferedWriter(raw) if "w" in mode else io.BufferedReader(raw)

    def next_call(self, file: _SteppedFile, name: str, run: Callable[[], object], data: bytes = b"") -> object:
        if self._paused:
            return run()
        return self.take(Call(len(self.taken), name, file.file, run, file.fileno(), data))


class _SteppedFile(io.FileIO):
    steps: Steps
    file: str

    def write(self, data: object) -> int:
        whole = bytes(data)  # type: ignore[call-overload]
        real = super().write
        return self.steps.next_call(self, "write", lambda: real(whole), whole)  # type: ignore[return-value]

    def readall(self) -> bytes:
        real = super().readall
        return self.steps.next_call(self, "read", real)  # type: ignore[return-value]

    def close(self) -> None:
        real = super().close
        if self.closed:
            real()
            return
        try:
            self.steps.next_call(self, "close", lambda: None)
        finally:
            real()  # also a close that fails gives the descriptor back


Fault = Callable[[Steps, Call], object]


def none(_: Steps, call: Call) -> object:
    """No fault."""
    return call.run()


def signaled(at: int, number: signal.Signals, *, after: bool = False, lasting: bool = False) -> Fault:
    """The process sends itself a signal before or after a step; ``lasting``: and at each step from there on."""

    def fault(_: Steps, call: Call) -> object:
        hit = call.number == at or (lasting and call.number > at)
        if hit and not after:
            os.kill(os.getpid(), number)
        result = call.run()
        if hit and after:
            os.kill(os.getpid(), number)
        return result

    return fault


def killed_in_write(at: int, share: float) -> Fault:
    """The process dies when a write has done only a part of its work."""

    def fault(steps: Steps, call: Call) -> object:
        if call.number == at:
            with steps.pause():
                os.write(call.descriptor, call.data[: int(len(call.data) * share)])
                os.kill(os.getpid(), signal.SIGKILL)
        return call.run()

    return fault


def failing(at: int, code: int, *, lasting: bool = False) -> Fault:
    """A step fails; a write that fails has written half. ``lasting``: every step from there on fails, close aside."""

    def fault(steps: Steps, call: Call) -> object:
        if call.number == at or (lasting and call.number > at and call.name != "close"):
            if call.data:
                with steps.pause():
                    os.write(call.descriptor, call.data[: len(call.data) // 2])
            elif call.name == "close":
                call.run()
            raise OSError(code, f"{os.strerror(code)} [{errorcode[code]}]", call.file)
        return call.run()

    return fault


def short_write(at: int) -> Fault:
    """A write does only a part of its work and says so, as the system may at any time."""

    def fault(steps: Steps, call: Call) -> object:
        if call.number == at and call.data:
            with steps.pause():
                return os.write(call.descriptor, call.data[: (len(call.data) + 1) // 2])
        return call.run()

    return fault


def meanwhile(at: int, action: Callable[[], None]) -> Fault:
    """Another program does something just before a step."""

    def fault(steps: Steps, call: Call) -> object:
        if call.number == at:
            with steps.pause():
                action()
        return call.run()

    return fault
