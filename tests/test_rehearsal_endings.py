"""However a rehearsed program ends, one sentence says so and nothing of it is left running."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from precfix.codemod.cli.rehearsed_device import device_of
from precfix.probes.rehearsal.family import ProcessFamily
from precfix.probes.rehearsal.inside.settings import ProcessSettings
from precfix.probes.rehearsal.inside.start import on_this_machine
from precfix.probes.rehearsal.record import RehearsalRecord, record_of
from precfix.probes.rehearsal.running import Gpu, Rehearsal, RehearsedRun, settings_for
from precfix.probes.rehearsal.verdict import closing, exit_code

from . import warm
from .nightly import first_by_day
from .warm_torch import python

pytest.importorskip("torch")
linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="only Linux says what a process has started")
ODD_ENDS = """
import os, sys
import torch
child = os.fork()
if child == 0:
    torch.ones(2)
    os._exit(0)
os.waitpid(child, 0)
sys.stdout.buffer.write(bytes(range(256)))
sys.stdout.buffer.flush()
torch.nn.Linear(4, 4).bfloat16().cuda()(torch.randn(2, 4, device="cuda"))
os._exit(7)
"""
INTERRUPTED = """
import os, pathlib, signal, sys, threading, time
from precfix.codemod.cli.running import main

def interrupt():
    while not began.exists():
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)

began = pathlib.Path(sys.argv[1])
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt, daemon=True).start()
sys.argv = ["precfix", "rehearse", "--", sys.executable, "train.py"]
main()
"""
WAITING = """
import os, time
with open({began!r}, "w") as stream:
    stream.write(str(os.getpid()))
time.sleep(100)
"""
FAILING = """
import torch
torch.ones(2, 2) @ torch.ones(2, 2).half()
"""
"""Shows that it was watched, and makes no optimizer: for one, torch imports its whole compiler."""
STEP = """
import json, os, torch
from pathlib import Path
net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
with torch.autocast("cuda", dtype=torch.bfloat16):
    loss = net(torch.randn(2, 4, device="cuda")).float().mean()
loss.backward()
optimizer.step()
torch.save(net.state_dict(), "best.pt")
"""
SPAWNING = """
import torch
from torch import multiprocessing
def train(rank):
    net = torch.nn.Linear(4, 4).to(rank).half()
    scaler, optimizer = torch.amp.GradScaler("cuda"), torch.optim.SGD(net.parameters(), lr=0.1)
    scaler.scale(net(torch.ones(2, 4, device=rank).half()).float().mean()).backward(); scaler.step(optimizer)
if __name__ == "__main__":
    {start}
"""
WRITING = f"""{STEP}
torch.save(net.state_dict(), "tmp.pt")
os.replace("tmp.pt", "last.pt")
assert Path("last.pt").is_file() and not os.path.exists("tmp.pt")
for saved in (torch.load("last.pt"), torch.load(open("best.pt", "rb"))):
    assert torch.equal(saved["weight"], net.state_dict()["weight"].cpu())
json.dump([1], open("metrics.json", "w"))
assert json.load(open("metrics.json")) == [1]
Path("fresh.txt").write_text("new")
"""
DROPPING = f"""{STEP}
assert Path("best.pt").read_text() == "{{}}"
"""
NOTEBOOK = [
    "!pip install anything\nimport torch",
    "async def later():\n    return torch.ones(2, device='cuda').half()\nassert 'colab' not in str(get_ipython())",
    "x = await later()\nx @ torch.ones(2, device='cuda')",
]


def rehearse(folder: Path, *words: str, piped: bytes = b"", forked: bool = False) -> subprocess.CompletedProcess[bytes]:
    """``precfix rehearse`` with these words; ``forked``: with a ``python`` that need not start."""
    found = Path(python() if forked else sys.executable)
    path = {"PATH": os.pathsep.join([str(found.parent), os.environ["PATH"]])}
    if not piped:
        return warm.precfix("rehearse", *words, cwd=folder, environment=path)
    start = [sys.executable, "-m", "precfix.codemod", "rehearse", *words]
    return subprocess.run(start, cwd=folder, env=os.environ | path, input=piped, capture_output=True, timeout=120)


def wait_for(happened: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_ended(process: int) -> bool:
    """Whether a process is gone, or is a zombie that whatever runs the tests has not waited for yet."""
    try:
        state = Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"


def last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stdout.decode().rstrip().splitlines()[-1]


def test_a_program_that_forks_writes_bytes_and_leaves_at_once(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ODD_ENDS, "utf-8")
    (tmp_path / "run.sh").write_text("exec python train.py\n", "utf-8")
    done = rehearse(tmp_path, "-v", "--", "sh", "run.sh")
    assert done.returncode == 1
    assert "1 failure" in last_line(done)
    assert bytes(range(256)) in done.stderr


def test_the_time_limit_ends_a_program_that_waits(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(100)\n", "utf-8")
    done = rehearse(tmp_path, "--time-limit", "1", "--", "python", "train.py")
    assert (done.returncode, "the time limit ended the program" in last_line(done)) == (3, True)
    assert done.stderr == b"", "how it was interrupted is no error of the program"


@pytest.mark.parametrize(
    "wants",
    ["raise RuntimeError('x must be a CUDA tensor')", "raise ModuleNotFoundError(\"No module named 'triton'\")"],
)
def test_a_place_that_wants_a_kernel_of_the_gpu_is_named(tmp_path: Path, wants: str) -> None:
    (tmp_path / "train.py").write_text(f"import torch\n{wants}\n", "utf-8")
    done = rehearse(tmp_path, "--", "python", "train.py", forked=True)
    assert done.returncode == 3
    assert "train.py:2 wants a kernel that is written for the GPU" in last_line(done)


def test_a_program_that_dies_of_something_else_shows_its_own_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("open('nothing.yaml')\n", "utf-8")
    done = rehearse(tmp_path, "--", "python", "train.py")
    assert done.returncode == 3
    assert "FileNotFoundError: [Errno 2] No such file or directory: 'nothing.yaml'" in done.stderr.decode()


def test_a_list_of_what_would_have_been_right_names_no_dtype_that_failed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.randn(2, 3, wrong=1)\n", "utf-8")
    done = rehearse(tmp_path, "--", "python", "train.py", forked=True)
    assert (done.returncode, "the program died: TypeError: randn()" in last_line(done)) == (3, True)


@pytest.mark.parametrize("line", first_by_day("export PYTHONPATH=$PWD/lib", "unset PYTHONPATH; PATH=$PATH:/nowhere"))
def test_a_script_that_sets_the_path_of_modules_anew_is_watched(tmp_path: Path, line: str) -> None:
    (tmp_path / "train.py").write_text(f"import sys\nsys.path.append('lib')\nimport own\n{FAILING}", "utf-8")
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "own.py").write_text("", "utf-8")
    (tmp_path / "run.sh").write_text(f"set -eu\n{line}\npython train.py | cat\n", "utf-8")
    done = rehearse(tmp_path, "--", "sh", "run.sh")
    assert (done.returncode, "1 failure" in last_line(done)) == (1, True)


def test_a_program_above_the_current_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.ones(2, 2) @ torch.ones(2, 2).half()\n", "utf-8")
    (tmp_path / "scripts").mkdir()
    done = rehearse(tmp_path / "scripts", "--", "python", "../train.py", forked=True)
    assert done.stdout.decode().startswith("train.py:2:1 PF2"), done.stdout.decode()


def test_what_dies_where_it_is_not_watched_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nassert torch.ones(1).is_cuda\n", "utf-8")
    done = rehearse(tmp_path, "--", "python", "-I", "train.py")
    assert done.returncode == 3
    assert "the program died before it imported torch where it could be watched: AssertionError" in last_line(done)


def test_what_is_piped_in_is_the_programs(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import sys\nassert sys.stdin.read() == 'words'\n{FAILING}", "utf-8")
    done = rehearse(tmp_path, "--", "python", "train.py", piped=b"words")
    assert (done.returncode, "1 failure" in last_line(done)) == (1, True), done.stderr.decode()


@pytest.mark.parametrize(
    "start",
    first_by_day("multiprocessing.Process(target=train, args=(0,)).start()", "multiprocessing.spawn(train, nprocs=2)"),
)
def test_what_a_started_process_dies_of_is_told_at_its_line(tmp_path: Path, start: str) -> None:
    (tmp_path / "train.py").write_text(SPAWNING.format(start=start), "utf-8")
    done = rehearse(tmp_path, "--", "python", "train.py")
    assert done.returncode == 1, done.stderr.decode()
    first, *_ = done.stdout.decode().splitlines()
    assert first.startswith("train.py:5:11 PF107"), first
    assert done.stdout.decode().count("= not fixed") == 1


def test_ctrl_c_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\nopen('began', 'w').close()\ntime.sleep(100)\n", "utf-8")
    words = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "began")]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, timeout=120)
    assert (done.returncode, "the program was interrupted before its first" in last_line(done)) == (3, True)
    assert done.stderr == b""


@pytest.mark.parametrize("words", [["rehearse"], ["migrate", ".", "--prove"]])
def test_no_program_is_left_running_where_precfix_is_terminated(tmp_path: Path, words: list[str]) -> None:
    began, project = tmp_path / "began", tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(WAITING.format(began=str(began)), "utf-8")
    start = [sys.executable, "-m", "precfix.codemod", *words, "--", sys.executable, "train.py"]
    running = subprocess.Popen(start, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(lambda: began.exists() and began.read_text("utf-8") != "")
    running.terminate()
    assert running.wait(60) != 0
    program = int(began.read_text("utf-8"))
    wait_for(lambda: is_ended(program))


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["nothing-of-that-name"], "there is no such program"),
        (["missing.ipynb"], "missing.ipynb"),
        (["./run.sh"], "it is not executable; type `sh ./run.sh`"),
        (["./plain"], "its first line names no shell; type `sh ./plain`"),
        (["--compare", "--", sys.executable, "train.py"], "--compare requires a GPU"),
        (["--as", "b200x", "--", sys.executable, "train.py"], "neither a file nor one of cuda, v100"),
        (["--as", "empty.json", "--", sys.executable, "train.py"], "this profile has no device"),
    ],
)
def test_a_command_that_cannot_be_run_is_bad_usage(tmp_path: Path, command: list[str], words: str) -> None:
    (tmp_path / "train.py").write_text("import torch\nopen('ran', 'w')\n", "utf-8")
    (tmp_path / "empty.json").write_text('{"precfix_profile": 1}', "utf-8")
    for name, mode in (("run.sh", 0o644), ("plain", 0o755)):
        (tmp_path / name).write_text("echo\n", "utf-8")
        (tmp_path / name).chmod(mode)
    done = rehearse(tmp_path, *([] if "--" in command else ["--"]), *command)
    assert done.returncode == 2
    (sentence,) = done.stderr.decode().splitlines()
    assert words in sentence
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("gpu", "has_gpu", "simulated", "refused"),
    [
        ("recorded", True, False, False),
        ("recorded", False, True, False),
        ("refused", True, True, True),
        ("refused", False, True, False),
        ("required", True, False, False),
        ("required", False, True, True),
        ("ignored", True, True, False),
    ],
)
def test_what_a_gpu_in_the_machine_means(gpu: str, has_gpu: bool, simulated: bool, refused: bool) -> None:
    """A stand-in says whether there is a GPU: none was at hand."""
    asked = settings_for(Rehearsal(["python"], Path("/nowhere"), gpu=Gpu(gpu)), Path("/nowhere"))
    settings, reason = on_this_machine(ProcessSettings(**asked), has_gpu)
    assert (settings.on.simulated, bool(reason)) == (simulated, refused)


@pytest.mark.parametrize(
    ("backend", "capability", "support", "native"),
    [
        ("cuda", "7.5", "emulated", False),
        ("cuda", "8.6", None, True),
        ("cuda", "7.0", None, False),
        ("rocm", "gfx942", None, True),
    ],
)
def test_a_saved_profile_is_a_device(
    tmp_path: Path, backend: str, capability: str, support: str | None, native: bool
) -> None:
    verdicts = {"bf16": {"support": support}} if support else {}
    device = {"backend": backend, "capability": capability, "name": "Some GPU", "memory_bytes": 24 << 30}
    file = tmp_path / "precfix-profile.json"
    file.write_text(json.dumps({"precfix_profile": 1, "devices": [{**device, "verdicts": verdicts}]}), "utf-8")
    name, found = device_of(str(file))
    assert name == "precfix-profile.json"
    assert found is not None
    assert (found.name, found.type, found.memory, found.native_bf16) == ("Some GPU", "cuda", 24, native)
    assert found.hip == (backend == "rocm")
    assert found.capability == {"7.5": (7, 5), "8.6": (8, 6), "7.0": (7, 0), "gfx942": (9, 4)}[capability]
    assert "aten::_amp_foreach_non_finite_check_and_unscale_" in found.missing


def test_what_was_there_is_not_overwritten_and_checkpoints_are_read_back(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WRITING, "utf-8")
    for name in ("metrics.json", "best.pt"):
        (tmp_path / name).write_text("{}", "utf-8")
    done = rehearse(tmp_path, "--as", "t4", "--", "python", "train.py", forked=True)
    assert done.returncode == 0, done.stderr.decode()
    assert [(tmp_path / name).read_text("utf-8") for name in ("metrics.json", "best.pt")] == ["{}", "{}"]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["best.pt", "fresh.txt", "metrics.json", "train.py"]
    notes = [line for line in done.stdout.decode().splitlines() if line.startswith("  note: ")]
    assert [any(word in note for note in notes) for word in ("emulated", "checkpoints went", "overwritten")] == [
        True
    ] * 3
    (tmp_path / "train.py").write_text(DROPPING, "utf-8")
    assert rehearse(tmp_path, "--no-write", "--", "python", "train.py", forked=True).returncode == 0


def test_the_cells_of_a_notebook_are_run_in_order(tmp_path: Path) -> None:
    cells = [{"cell_type": "code", "source": source, "metadata": {}, "outputs": []} for source in NOTEBOOK]
    cells.insert(1, {"cell_type": "markdown", "source": "words", "metadata": {}})
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "run.ipynb").write_text(json.dumps(notebook), "utf-8")
    done = rehearse(tmp_path, "--", "jupyter", "nbconvert", "--execute", "run.ipynb")
    assert done.returncode == 1, done.stderr.decode()
    assert "run.ipynb:cell 4:2" in done.stdout.decode()


LAUNCHER = {"torch": "2.13.0", "ended": "error", "error": "ChildFailedError: ", "died": {"place": None}}
WORKER = {**LAUNCHER, "error": "ValueError: of the worker", "died": {"place": ["train.py", 1, 1, 0, 4]}}

RETOLD = "ProcessRaisedException: \n\n-- Process 0:\nTraceback (most recent call last):\n  f()\nKeyError: 'x'\n"
PARENT = {**WORKER, "error": RETOLD}


def record(run: RehearsedRun, steps: int = 0) -> RehearsalRecord:
    return record_of(Rehearsal(["python", "train.py"], Path("/nowhere"), steps=steps), run, "test")


@pytest.mark.parametrize(
    ("run", "words", "code"),
    [
        (RehearsedRun([{"torch": "2.13.0", "steps": 3, "ended": "steps"}]), "nothing raised in 3 optimizer steps", 0),
        (RehearsedRun([{"torch": "2.13.0", "steps": 0}]), "made no optimizer step, so its training was not seen", 3),
        (RehearsedRun([{"torch": "2.13.0", "steps": 2}], ended="time"), "the time limit ended the program", 0),
        (RehearsedRun([{"torch": "2.13.0", "steps": 0}], ended="memory"), "the memory limit ended the program", 3),
        (RehearsedRun([{"torch": "2.13.0"}], ended="interrupted"), "the program was interrupted", 3),
        (RehearsedRun([{"torch": "2.13.0"}], status=-11), "signal 11 ended it", 3),
        (RehearsedRun([LAUNCHER, WORKER], status=1), "the program died: ValueError: of the worker", 3),
        (RehearsedRun([PARENT], status=1), "the program died: ProcessRaisedException: KeyError: 'x'", 3),
        (RehearsedRun([], status=-9), "it was killed, as happens where memory runs out", 3),
        (RehearsedRun([]), "never imported torch", 3),
    ],
)
def test_the_closing_sentence(run: RehearsedRun, words: str, code: int) -> None:
    seen = record(run)
    assert words in closing(seen, run)
    assert exit_code(seen) == code


@linux
def test_memory_of_a_group_is_read_from_the_system() -> None:
    family = ProcessFamily()
    family.leader = os.getpgrp()
    assert family.memory() > 1 << 20
    family.leader = 0x7FFFFFFF
    assert family.memory() == 0


DAEMON = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(0.5)
        exec(compile({FAILING!r}, "train.py", "exec"))
os._exit(0)
"""
FOLLOWED = {
    "a daemon": ("python", DAEMON),
    "a job of a shell": ("sh", "setsid nohup python train.py > log 2>&1 &"),
    "an empty environment of a shell": ("sh", "env -i {python} train.py"),
    "an empty environment of a child": (
        "python",
        "import subprocess; subprocess.run(['{python}', 'train.py'], env={{}})",
    ),
    "an empty environment from here on": ("python", "import os; os.execve('{python}', ['{python}', 'train.py'], {{}})"),
}


@linux
@pytest.mark.parametrize("kind", FOLLOWED)
def test_what_leaves_its_session_or_its_environment_is_followed(tmp_path: Path, kind: str) -> None:
    program, source = FOLLOWED[kind]
    text = source if kind == "a daemon" else source.format(python=sys.executable)
    (tmp_path / "train.py").write_text(FAILING, "utf-8")
    (tmp_path / "start").write_text(text, "utf-8")
    done = rehearse(tmp_path, "--time-limit", "60", "--", program, "start")
    assert (done.returncode, "1 failure" in last_line(done)) == (1, True)


@linux
def test_a_daemon_is_ended_with_the_program(tmp_path: Path) -> None:
    began = tmp_path / "began"
    (tmp_path / "wait.py").write_text(WAITING.format(began=str(began)), "utf-8")
    (tmp_path / "run.sh").write_text("setsid python wait.py &\nexec python train.py\n", "utf-8")
    (tmp_path / "train.py").write_text(f"import os\nwhile not os.path.exists('began'): pass\n{STEP}", "utf-8")
    assert rehearse(tmp_path, "--", "sh", "run.sh").returncode == 0
    wait_for(lambda: is_ended(int(began.read_text("utf-8"))))
