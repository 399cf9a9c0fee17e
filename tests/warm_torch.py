"""A Python that has torch imported already, for tests that start programs: ``[python(), "train.py"]``.

A server imports torch once and forks for each call. What stands in for Python passes its arguments, folder,
environment and streams on, waits, and ends as the fork ended. What happens before a program's first line, the process
group and who is a child of whom are not those of a real start: tests that ask for these start ``sys.executable``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
STAND_IN = """#!{python} -IS
import json, os, signal, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = {{"words": sys.argv[1:], "cwd": os.getcwd(), "environment": dict(os.environ)}}
data = json.dumps(call).encode()
socket.send_fds(server, [len(data).to_bytes(8, "little")], [0, 1, 2])
server.sendall(data)
answers = server.makefile("rb")
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
code = int(answers.readline() or 1)
if code < 0:
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@cache
def python() -> str:
    """The path of a Python with torch in it; this one where processes cannot fork."""
    if not hasattr(os, "fork"):
        return sys.executable
    folder = tempfile.TemporaryDirectory(prefix="warm-torch-")
    address, path = os.path.join(folder.name, "socket"), Path(folder.name) / "python"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    path.write_text(STAND_IN.format(python=sys.executable, address=address), "utf-8")
    path.chmod(0o755)
    words = [sys.executable, "-m", "tests.warm_torch", str(listener.fileno())]
    server = subprocess.Popen(words, cwd=REPOSITORY, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
    listener.close()

    def stop() -> None:
        server.communicate()
        folder.cleanup()

    atexit.register(stop)
    return str(path)


# --- the server -------------------------------------------------------------------------------------------------------


def serve(listener: socket.socket) -> None:
    """Answer calls until nobody holds the other end of standard input."""
    import torch

    torch.set_num_threads(1)
    torch.optim.SGD([torch.zeros(1)], lr=0.1)  # the first optimizer imports the whole compiler
    own = {str(REPOSITORY), "", *os.environ.get("PYTHONPATH", "").split(os.pathsep)}
    sys.path[:] = [each for each in sys.path if each not in own]
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        ready, _, _ = select.select([listener, 0], [], [])
        if 0 in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(connection)
        connection.close()


def _answer(connection: socket.socket) -> None:
    """Run one call in a fork and tell how it ended; never returns."""
    size, descriptors, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as stream:
        call = json.loads(stream.read(int.from_bytes(size, "little")))
    child = os.fork()
    if child == 0:
        connection.close()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        _be(call)
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        connection.sendall(f"{child}\n".encode())
        _, status = os.waitpid(child, 0)
        connection.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def _be(call: dict[str, Any]) -> None:
    """Be the program that was called; never returns."""
    code: object = 1
    try:
        os.chdir(call["cwd"])
        os.environ.clear()
        os.environ.update(call["environment"])
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.path[:0] = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        for number, mode in enumerate("rww"):
            name = ("stdin", "stdout", "stderr")[number]
            setattr(sys, name, open(number, mode, 1 if number == 2 else -1, closefd=False))  # noqa: SIM115
        if "PRECFIX_REHEARSAL" in os.environ:
            sys.modules.pop("sitecustomize", None)
            __import__("sitecustomize")
        code = _run(call["words"])
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code if isinstance(code, int) else 1)


def _run(words: Sequence[str]) -> int:
    """The exit status of ``-m module``, ``-c code`` or a script; warnings stay off for ``-W ignore``."""
    rest = list(words)
    safe = "-P" in rest
    while rest[0] in ("-P", "-u", "-W"):
        rest = rest[2:] if rest[0] == "-W" else rest[1:]
    if "-W" in words:
        import warnings

        warnings.simplefilter("ignore")
    try:
        if rest[0] == "-m":
            sys.argv = rest[1:]
            sys.path[:0] = [] if safe else [os.getcwd()]
            runpy.run_module(rest[1], run_name="__main__", alter_sys=True)
        elif rest[0] == "-c":
            sys.argv = ["-c", *rest[2:]]
            sys.path[:0] = [] if safe else [""]
            exec(compile(rest[1], "<string>", "exec"), {"__name__": "__main__"})
        else:
            sys.argv = rest
            sys.path[:0] = [] if safe else [str(Path(rest[0]).resolve().parent)]
            runpy.run_path(rest[0], run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, int | None):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as died:
        own = _of_program(died.__traceback__)
        sys.excepthook(type(died), died.with_traceback(own), own)
        return 1
    return 0


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """The part of a traceback that the program would have had by itself."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
