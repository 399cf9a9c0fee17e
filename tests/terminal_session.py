"""A command on a pseudo-terminal: what it asks is read as a person would, answers are typed with Enter."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import struct
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .warm import Started

PATIENCE = 60.0
END = b"\x04"
"""Ctrl-D."""
INTERRUPT = b"\x03"
"""Ctrl-C."""


class TerminalSession:
    """``precfix``, its stdin and stderr a terminal; stdout goes to a file."""

    def __init__(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], size: tuple[int, int] = (24, 80)
    ) -> None:
        """``size`` is rows and columns."""
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        self._result = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `close`
        call = {"arguments": list(arguments), "cwd": str(cwd), "environment": {**os.environ, **env}, "terminal": True}
        self._ended = False
        self._started = Started({"closed": (), "limits": {}, **call}, (slave, self._result.fileno(), slave))
        os.close(slave)
        self.screen = b""
        self._seen = 0

    def question(self) -> str:
        """All that is written up to the next prompt."""
        deadline = time.monotonic() + PATIENCE
        while not self.screen[self._seen :].endswith(b"]? "):
            assert self._read(deadline), f"no question came:\n{self.text}"
        return self._new()

    def type(self, answer: str | bytes) -> str:
        """Type a line and wait for the next question."""
        self.send(answer)
        return self.question()

    def send(self, answer: str | bytes) -> None:
        """Type a line (text), or exactly these bytes."""
        os.write(self.master, answer if isinstance(answer, bytes) else answer.encode() + b"\n")

    def finish(self, answer: str | bytes | None = None) -> str:
        """Type a last line and read to the end."""
        if answer is not None:
            self.send(answer)
        deadline = time.monotonic() + PATIENCE
        while self._read(deadline):
            pass
        self.code = self._started.wait()
        self._ended = True
        os.close(self.master)
        return self._new()

    @property
    def result(self) -> str:
        """What went to stdout."""
        self._result.seek(0)
        return self._result.read().decode()

    @property
    def text(self) -> str:
        """The whole screen so far."""
        return self.screen.decode(errors="replace").replace("\r\n", "\n")

    def close(self) -> None:
        """End what is left over."""
        if not self._ended:
            os.kill(self._started.pid, signal.SIGKILL)
            self._started.wait()
        self._result.close()

    def _new(self) -> str:
        fresh = self.screen[self._seen :]
        self._seen = len(self.screen)
        return fresh.decode(errors="replace").replace("\r\n", "\n")

    def _read(self, deadline: float) -> bool:
        """Whether more has come; False at the end."""
        ready, _, _ = select.select([self.master], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError(f"nothing came for {PATIENCE} s:\n{self.text}")
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the other side is closed: this is how Linux says so
            return False
        self.screen += data
        return bool(data)
