"""Single cases of the fault campaign: something is being done, a fault comes at a step, and all is looked at."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from precfix.codemod.applying.apply import undo
from precfix.codemod.model import UsageError

from .fault_others import RUNS, Other
from .fault_project import FILES, Kept, Result, Sandbox, check, go_on, settle
from .fault_steps import Call, Fault, Steps, failing, killed_in_write, meanwhile, none, short_write, signaled


@dataclass(frozen=True)
class Outcome:
    """How a child process ended: ``done``, ``refused``, ``interrupted``, ``crashed`` or ``killed``."""

    kind: str
    message: str = ""
    taken: tuple[tuple[str, str], ...] = ()


def in_child(action: Callable[[], None], fault: Fault) -> Outcome:
    """Run ``action`` with a fault in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _report(action, Steps(fault), writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(child, 0)
    if not data:
        return Outcome("killed", str(os.waitstatus_to_exitcode(status)))
    kind, message, taken = json.loads(data)
    return Outcome(kind, message, tuple((name, file) for name, file in taken))


def _report(action: Callable[[], None], steps: Steps, pipe: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kind, message = "done", ""
    try:
        steps.install()
        action()
    except UsageError as error:
        kind, message = "refused", str(error)
    except KeyboardInterrupt:
        kind = "interrupted"
    except BaseException:  # what a user must never see
        kind, message = "crashed", traceback.format_exc()[-300:]
    with steps.pause():
        with open(pipe, "wb") as file:
            file.write(json.dumps([kind, message, steps.taken]).encode())
        os._exit(0)


# --- what is being done when the fault comes --------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """``run`` leaves every file as ``goal`` says, from what ``prepare`` has left.

    With ``until``, only the steps up to the first call of that function are tried.
    """

    name: str
    prepare: Callable[[Sandbox], None]
    run: Callable[[Sandbox], None]
    goal: str
    until: str = ""


def _crashed_apply(box: Sandbox) -> None:
    """An apply that was killed when two files were new."""
    seen = 0

    def fault(_: Steps, call: Call) -> object:
        nonlocal seen
        seen += call.name == "replace" and call.file in {Path(each.path).name for each in box.files}
        if seen == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return call.run()

    in_child(box.apply, fault)
    assert sorted(box.words()) == ["new"] * 2 + ["old"] * (len(box.files) - 2)


def _crashed_early(box: Sandbox) -> None:
    """The lock of a dead process, and halves of journals."""
    for half in ("draft-1", "old-1"):
        (box.root / ".precfix/journal" / half).mkdir(parents=True)
        (box.root / ".precfix/journal" / half / "before.bin").write_bytes(b"half")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    (box.root / ".precfix/lock").write_text(json.dumps({"pid": child, "host": os.uname().nodename}))


OPERATIONS = (
    Operation("apply", lambda box: None, Sandbox.apply, "new"),
    Operation("apply after a crash", _crashed_early, Sandbox.apply, "new", until="mkdir"),  # then it is any apply
    Operation("undo", Sandbox.apply, Sandbox.undo, "old"),
    Operation("undo after a crash", _crashed_apply, Sandbox.undo, "old"),
)


# --- kinds of faults --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A fault that can come at a step; ``only`` are the functions it makes sense for (none: all)."""

    name: str
    fault: Callable[[int], Fault]
    only: tuple[str, ...] = ()


_ERRORS = {
    errno.ENOSPC: "disk full",
    errno.EDQUOT: "quota used up",
    errno.EIO: "input/output error",
    errno.EROFS: "disk becomes read-only",
    errno.EACCES: "permission denied",
    errno.EPERM: "not permitted",
    errno.EMFILE: "too many open files",
}
KINDS = (
    Kind("killed before the step", partial(signaled, number=signal.SIGKILL)),
    Kind("killed after the step", partial(signaled, number=signal.SIGKILL, after=True)),
    *(
        Kind(f"killed in a write, {share:.0%} written", partial(killed_in_write, share=share), ("write",))
        for share in (0.0, 0.01, 0.5, 0.99)
    ),
    Kind("ended by SIGTERM", partial(signaled, number=signal.SIGTERM)),
    Kind("Ctrl-C before the step", partial(signaled, number=signal.SIGINT)),
    Kind("Ctrl-C after the step", partial(signaled, number=signal.SIGINT, after=True)),
    Kind("Ctrl-C again and again", partial(signaled, number=signal.SIGINT, lasting=True)),
    Kind("a write takes only a part", short_write, ("write",)),
    *(
        Kind(f"{words}, {'from there on' if lasting else 'once'}", partial(failing, code=code, lasting=lasting))
        for code, words in _ERRORS.items()
        for lasting in (False, True)
    ),
)


_STEPS: dict[str, list[tuple[str, str]]] = {}
"""Of each operation by name: counted once, as they are the same in every sandbox."""


def steps_of(operation: Operation, folder: Path) -> list[tuple[str, str]]:
    """Function and file of every step, when nothing fails."""
    if operation.name not in _STEPS:
        _STEPS[operation.name] = _counted(operation, folder)
    return _STEPS[operation.name]


def _counted(operation: Operation, folder: Path) -> list[tuple[str, str]]:
    with sandbox(folder) as box:
        operation.prepare(box)
        done = in_child(partial(operation.run, box), none)
        assert done.kind == "done", done
        names = [name for name, _ in done.taken]
        return list(done.taken)[: names.index(operation.until) + 1 if operation.until else None]


@contextmanager
def sandbox(folder: Path, files: tuple[Kept, ...] = FILES) -> Iterator[Sandbox]:
    """A `Sandbox` in a folder that is removed afterwards."""
    made = Path(tempfile.mkdtemp(dir=folder))
    try:
        yield Sandbox(made, files)
    finally:
        shutil.rmtree(made)


def try_kind(kind: Kind, operation: Operation, at: int, folder: Path, result: Result) -> None:
    """One case: the fault comes at step ``at``."""
    with sandbox(folder) as box:
        operation.prepare(box)
        outcome = in_child(partial(operation.run, box), kind.fault(at))
        what = f"{kind.name}, {operation.name}, step {at}"
        result.count(operation.name)
        judge(box, outcome, operation, result, what)
        check(box, result, what)
        settle(box, result, what)


def judge(
    box: Sandbox, outcome: Outcome, operation: Operation, result: Result, what: str, spared: Sequence[str] = ()
) -> None:
    """What a run says must be true."""
    words = [word for each, word in zip(box.files, box.words(), strict=True) if each.path not in spared]
    if outcome.kind == "crashed":
        result.wrong.append(f"{what}: {outcome.message}")
    if outcome.kind == "refused" and ("\n" in outcome.message or len(outcome.message) < 10):
        result.wrong.append(f"{what}: unclear message {outcome.message!r}")
    if outcome.kind == "done" and set(words) - {operation.goal}:
        result.wrong.append(f"{what}: done, but {words}")
    nothing = outcome.kind == "refused" and operation.goal == "new" and "run precfix undo" not in outcome.message
    if nothing and set(words) - {"old"}:
        result.wrong.append(f"{what}: {outcome.message!r}, but {words}")


# --- other programs ---------------------------------------------------------------------------------------------------


def try_other(other: Other, operation: Operation, at: int, folder: Path, result: Result) -> None:
    """One case: another program does something just before step ``at``."""
    with sandbox(folder) as box:
        operation.prepare(box)
        outcome = in_child(partial(operation.run, box), meanwhile(at, partial(other.act, box)))
        what = f"{other.name}, {operation.name}, step {at}"
        result.count(operation.name)
        check(box, result, what, other.files)
        if other in RUNS:
            if outcome.kind == "crashed" or (operation.goal == "new" and len(set(box.words())) > 1):
                result.wrong.append(f"{what}: {outcome.kind} {outcome.message} {box.words()}")
            settle(box, result, what)
            return
        judge(box, outcome, operation, result, what, other.files)
        for each in box.files:
            if each.path in other.files and not other.survives(box, each):
                _note_vanished(each, outcome, at, result, what)
        heal(box, result, what)


def _note_vanished(each: Kept, outcome: Outcome, at: int, result: Result, what: str) -> None:
    if in_window(outcome.taken, Path(each.path).name, at):
        result.windows += 1
    else:
        result.wrong.append(f"{what}: its change of {each.path} is gone; {outcome.kind} {outcome.message}")
        result.lost += len(each.old)


def in_window(taken: Sequence[tuple[str, str]], name: str, at: int) -> bool:
    """Whether step ``at`` lies between the last opening of a file and the renaming over it."""
    opened = 0
    for number, (function, file) in enumerate(taken):
        if file == name and function == "open":
            opened = number
        if file == name and function == "replace" and opened < at <= number:
            return True
    return False


def heal(box: Sandbox, result: Result, what: str) -> None:
    """After another program's work: undo does or says something sensible, and when that is undone, all works again."""
    before = box.words()
    try:
        box.undo()
    except UsageError as error:
        message = str(error)
        if "\n" in message or len(message) < 10:
            result.wrong.append(f"{what}: unclear message of undo {message!r}")
        if "nothing was restored" in message and box.words() != before:
            result.wrong.append(f"{what}: {message!r}, but {box.words()}")
        if "--force" in message:
            _force(box, result, what)
    for link in (box.root / "sub", box.root / ".precfix"):
        if link.is_symlink():
            link.unlink()
    for name in ("moved", ".precfix"):
        shutil.rmtree(box.root / name, ignore_errors=True)
    for lost in box.root.rglob(".precfix-*.tmp"):  # of a crash whose journal was destroyed; they block nothing
        lost.unlink()
    for each in box.files:
        box.file(each).parent.mkdir(parents=True, exist_ok=True)
        box.file(each).unlink(missing_ok=True)
        box.file(each).write_bytes(each.old)
        box.file(each).chmod(each.mode)
    go_on(box, result, what)


def _force(box: Sandbox, result: Result, what: str) -> None:
    for each in box.files:
        box.file(each).parent.mkdir(parents=True, exist_ok=True)
    try:
        undo(box.root, force=True)
    except UsageError as error:
        result.wrong.append(f"{what}: undo --force was refused: {error}")
        return
    contents = [box.file(each).read_bytes() == each.old for each in box.files]
    if not all(contents):
        result.wrong.append(f"{what}: undo --force left {contents}")
