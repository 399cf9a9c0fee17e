"""``precfix`` in a process of its own, without the second that importing it takes.

A server imports the product once and forks for each call. The child gets its own folder, environment, arguments and
streams, as if it had been started; what happens before ``main`` (Python's own start, ``python -m``) is not tried here.
"""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

REPOSITORY = Path(__file__).resolve().parent.parent
SECONDS = 600
PYTHON = "PRECFIX_TESTS_PYTHON"
"""In a call's environment: what it starts as this Python, as `warm_torch.python()`."""


def precfix(
    *arguments: object,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    closed: Sequence[int] = (),
    stdout: int | None = None,
    limits: Mapping[str, int] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the command; ``closed`` are descriptors it starts without, ``limits`` names of ``resource`` -> value."""
    call = {
        "arguments": [str(each) for each in arguments],
        "cwd": str(cwd or Path.cwd()),
        "environment": {**os.environ, **(environment or {})},
        "closed": list(closed),
        "limits": dict(limits or {}),
    }
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        code = Started(call, (nothing.fileno(), out.fileno() if stdout is None else stdout, err.fileno())).wait()
        return subprocess.CompletedProcess(call["arguments"], code, _all_of(out), _all_of(err))


class Started:
    """A call that runs. The server has one at a time: wait for its end before the next."""

    def __init__(self, call: Mapping[str, Any], streams: Sequence[int]) -> None:
        """With ``terminal`` in the call it gets a session of its own, whose terminal is its standard input."""
        server = _server()
        socket.send_fds(server, [json.dumps(call).encode() + b"\n"], list(streams))
        self._answers = server.makefile("rb")
        self.pid = int(self._answers.readline())
        self._code: int | None = None

    def wait(self) -> int:
        """Its exit status."""
        if self._code is None:
            with self._answers:
                self._code = int(self._answers.readline())
        return self._code


def text(done: subprocess.CompletedProcess[bytes]) -> subprocess.CompletedProcess[str]:
    """The same with its output decoded."""
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def _all_of(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


@cache
def _server() -> socket.socket:
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(theirs.fileno())], pass_fds=[theirs.fileno()], cwd=REPOSITORY
    )
    theirs.close()
    ours.settimeout(SECONDS)

    def stop() -> None:
        ours.close()
        process.wait()

    atexit.register(stop)
    return ours


# --- the server -------------------------------------------------------------------------------------------------------


def serve(connection: socket.socket) -> None:
    """Answer calls until the other side is gone."""
    from precfix.codemod import engine, rewrite  # noqa: F401
    from precfix.codemod.cli import app  # noqa: F401
    from precfix.transforms import load
    from precfix.transforms.frameworks import load_frameworks

    load()
    load_frameworks()
    while True:
        data, descriptors, _, _ = socket.recv_fds(connection, 1 << 16, 3)
        while data and not data.endswith(b"\n"):
            data += connection.recv(1 << 16)
        if not data:
            return
        child = os.fork()
        if child == 0:
            connection.close()
            _child(json.loads(data), descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.send(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        connection.send(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _child(call: dict[str, Any], descriptors: Sequence[int]) -> None:
    """Be what was called; never returns."""
    code = 1
    try:
        os.chdir(call["cwd"])
        os.environ.clear()
        os.environ.update(call["environment"])
        sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.argv = ["precfix", *call["arguments"]]
        sys.executable = os.environ.pop(PYTHON, sys.executable)
        sys.modules["__main__"].__package__ = ""  # typer would call the program ``python -m tests.precfix``
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for name, value in call["limits"].items():
            resource.setrlimit(getattr(resource, name), (value, value))
        _take_streams(call["closed"], descriptors)
        if call.get("terminal"):
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C reaches it through its terminal
        code = _run()
    finally:
        os._exit(code)


def _take_streams(closed: Sequence[int], descriptors: Sequence[int]) -> None:
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number in closed:
        os.close(number)
    sys.stdin, sys.stdout, sys.stderr = (
        None if number in closed else open(number, mode, buffering, closefd=False)  # type: ignore # noqa: SIM115
        for number, (mode, buffering) in enumerate((("r", -1), ("w", -1), ("w", 1)))
    )


def _run() -> int:
    """The exit status that Python would end with."""
    from precfix.codemod.__main__ import main

    code: object = 0
    try:
        main()
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        traceback.print_exc()
        code = 1
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:  # as Python does at its end
        print(f"Exception ignored: {error}", file=sys.stderr)
        return 120
    return code if isinstance(code, int) else int(code is not None)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
