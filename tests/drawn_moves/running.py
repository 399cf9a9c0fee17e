"""Runs the launch lines of a project; ``python`` is a fork of this process, which notes the dtypes."""

from __future__ import annotations

import importlib
import json
import os
import re
import runpy
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST = 60
CLIENT = """#!{python} -ISs
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX)
door.connect({door!r})
door.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode() + b"\\0")
answer = b""
while True:
    piece = door.recv(65536)
    if not piece:
        break
    answer += piece
said = json.loads(answer)
sys.stdout.write(said["out"])
sys.exit(said["status"])
"""
ON_CPU = (
    (re.compile(r"torch\.cuda\.amp"), "torch.cpu.amp"),
    (re.compile(r"torch\.cuda\.(is_available|is_bf16_supported)\(\)"), "True"),
    (re.compile(r"\.cuda\(\)"), ".cpu()"),
    (re.compile(r'(["\'])(?:cuda|gpu)\1'), '"cpu"'),
)
"""What makes of code for a GPU the same code for a CPU."""
PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "convolution", "linear", "matmul")


class Server:
    """Answers the clients that stand in the place of ``python``."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp()).resolve()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        self.door = str(self.folder / "door")
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(self.door)
        self.listening.listen()
        for name in ("python", "python3"):
            client = self.bin / name
            client.write_text(CLIENT.format(python=sys.executable, door=self.door), "utf-8")
            client.chmod(client.stat().st_mode | stat.S_IEXEC)
        self.child = os.fork()
        if self.child == 0:
            self._serve()

    @staticmethod
    def warm() -> None:
        """Imports what the programs do, and what torch imports late."""
        import torch

        torch.set_num_threads(1)
        for name in ("yaml", "click", "typer", "omegaconf", "tomllib"):
            importlib.import_module(name)
        weight = torch.nn.Parameter(torch.ones(2, 2))
        optimizer = torch.optim.AdamW([weight])
        scaler = torch.amp.GradScaler("cpu")
        with watched(torch, {"products": [], "steps": []}), torch.autocast("cpu", dtype=torch.float16):
            scaler.scale((weight @ weight).sum()).backward()
        torch.nn.utils.clip_grad_norm_([weight], 1.0)
        optimizer.step()

    def _serve(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who answer
        while True:
            guest, _ = self.listening.accept()
            if os.fork() == 0:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                self._answer(guest)
                os._exit(0)
            guest.close()

    def _answer(self, guest: socket.socket) -> None:
        asked = b""
        while not asked.endswith(b"\0"):
            asked += guest.recv(65536)
        place, environment, arguments = json.loads(asked[:-1])
        said = Path(tempfile.mkstemp(dir=self.folder)[1])
        child = os.fork()
        if child == 0:
            _become(place, environment, arguments, said, str(self.bin / "python"))
        _, status = os.waitpid(child, 0)
        answer = {"status": os.waitstatus_to_exitcode(status) & 255, "out": said.read_text("utf-8", "replace")}
        guest.sendall(json.dumps(answer).encode())
        guest.close()

    def close(self) -> None:
        os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)
        shutil.rmtree(self.folder, ignore_errors=True)


def _is_made(path: Path) -> bool:
    return path.is_file() or not any(path.iterdir())


def launched(server: Server, files: Mapping[str, str], line: str) -> dict[str, Any]:
    """What a launch line does in a project of its own: status, output, files, and what each process computed in."""
    top = Path(tempfile.mkdtemp()).resolve()
    for name, text in files.items():
        path = top / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_for_a_cpu(name, text), "utf-8")
    (top / "seen").mkdir()
    environment = {
        **{name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ},
        "PATH": f"{server.bin}:/usr/bin:/bin",
        "SEEN": str(top / "seen"),
    }
    try:
        ran = subprocess.run(
            ["bash", "-ec", line], cwd=top / "project", env=environment, capture_output=True, text=True, timeout=LONGEST
        )
        seen = [json.loads(each.read_text("utf-8")) for each in sorted((top / "seen").glob("*.json"))]
        made = {str(each.relative_to(top / "project")) for each in (top / "project").rglob("*") if _is_made(each)}
        made -= {name for name in made if "__pycache__" in name or name in files}
        return {"status": ran.returncode, "out": ran.stdout + ran.stderr, "made": sorted(made), "seen": seen}
    except subprocess.TimeoutExpired:
        return {"status": 124, "out": "too slow", "made": [], "seen": []}
    finally:
        shutil.rmtree(top, ignore_errors=True)


def _for_a_cpu(name: str, text: str) -> str:
    for pattern, instead in ON_CPU if name.endswith((".py", ".ipynb", ".yaml", ".json", ".toml")) else ():
        text = pattern.sub(instead.replace('"', '\\"') if name.endswith(".ipynb") else instead, text)
    return text


def _become(place: str, environment: dict[str, str], arguments: list[str], said: Path, python: str) -> None:
    """The forked process runs the program, and ends."""
    status = 1
    try:
        signal.alarm(LONGEST)
        stream = os.open(said, os.O_WRONLY | os.O_TRUNC)
        os.dup2(stream, 1)
        os.dup2(stream, 2)
        os.chdir(place)
        os.environ.clear()
        os.environ.update(environment)
        sys.executable = python
        sys.path.insert(0, place)
        status = _run(arguments)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _run(arguments: list[str]) -> int:
    import torch

    torch.set_autocast_dtype("cpu", torch.float16)  # as on a GPU, where no dtype is named
    seen: dict[str, Any] = {"argv": arguments, "products": [], "steps": []}
    mode = watched(torch, seen)
    try:
        with mode:
            if arguments[0] == "-m":
                sys.argv = arguments[1:]
                runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
            elif arguments[0].endswith(".ipynb"):
                sys.argv = arguments
                cells = json.loads(Path(arguments[0]).read_text())["cells"]
                code = "\n".join("".join(each["source"]) for each in cells if each["cell_type"] == "code")
                exec(compile(code, arguments[0], "exec"), {"__name__": "__main__"})
            else:
                sys.argv = arguments
                sys.path.insert(0, os.path.dirname(os.path.abspath(arguments[0])))
                runpy.run_path(arguments[0], run_name="__main__")
        return 0
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    finally:
        Path(os.environ["SEEN"], f"{len(os.listdir(os.environ['SEEN'])):03}.json").write_text(json.dumps(seen), "utf-8")


def watched(torch: Any, seen: dict[str, Any]) -> Any:
    """Notes in ``seen`` the dtypes of products, and of weights and gradients at each step of an optimizer."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func._schema.name.removeprefix("aten::")
            if name in PRODUCTS:
                given = next(each for each in args if isinstance(each, torch.Tensor))
                seen["products"].append(f"{name} {given.dtype} {'grad' if torch.is_grad_enabled() else ''}".strip())
            return func(*args, **(kwargs or {}))

    def note(optimizer: Any, scaled: bool | None) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        used = [weight for weight in weights if weight.grad is not None]
        group = optimizer.param_groups[0]
        seen["steps"].append(
            {
                "optimizer": type(optimizer).__name__,
                "weights": sorted({str(weight.dtype) for weight in weights}),
                "gradients": sorted({str(weight.grad.dtype) for weight in used}),
                "scaled": scaled,
                "rest": [group.get("lr"), group.get("eps"), len(weights), len(optimizer.param_groups)],
            }
        )

    inside: list[bool] = []
    step = torch.amp.GradScaler.step

    def scaled_step(self: Any, optimizer: Any, *args: Any, **options: Any) -> Any:
        note(optimizer, self.is_enabled())
        inside.append(True)
        try:
            return step(self, optimizer, *args, **options)
        finally:
            inside.pop()

    torch.amp.GradScaler.step = scaled_step  # type: ignore[method-assign]
    hook = sys.modules["torch.optim.optimizer"].register_optimizer_step_pre_hook
    hook(lambda optimizer, *_: None if inside else note(optimizer, False))
    return Mode()
