"""A part of the fault campaign, the faults it found, and the table in the documentation."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from .fault_cases import OPERATIONS, in_child, sandbox, steps_of
from .fault_injection import BEGIN, DOCS, END, HEAD, Row, rows, table, with_table
from .fault_machine import MACHINES, Skipped
from .fault_others import EDITS, OTHERS, Other
from .fault_project import Result, Sandbox, check, settle
from .fault_steps import Call, Steps, meanwhile, signaled

APPLY, AFTER_CRASH, UNDO, _ = OPERATIONS
_EVERY = {machine.name: every for machine, every in zip(MACHINES, (59, 23, 19, 5, 601, 61), strict=True)}
"""Each how many-th case is tried here; for faults at steps see below."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk in memory, where there is one: every case waits many times for the disk."""
    memory = "/dev/shm"
    if not os.access(memory, os.W_OK | os.X_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as made:
        yield Path(made)


@pytest.fixture
def box(folder: Path) -> Sandbox:
    return Sandbox(folder / "box")


@pytest.mark.parametrize(("number", "row"), list(enumerate(rows())), ids=lambda value: getattr(value, "name", ""))
def test_no_fault_loses_a_byte(folder: Path, number: int, row: Row) -> None:
    result = Result()
    every = _EVERY.get(row.name, 11 if "write" in row.name else 421 + 2 * number)  # other steps for each row
    try:
        row.run(folder, every, result)
    except Skipped as reason:
        pytest.skip(str(reason))
    assert result.wrong == []
    assert result.lost == 0
    assert sum(result.cases.values()) > 0


@pytest.mark.parametrize("operation", [APPLY, UNDO], ids=["apply", "undo"])
@pytest.mark.parametrize("other", [*EDITS, *OTHERS], ids=lambda other: other.name)
def test_what_another_program_did_before_the_last_look_stays(folder: Path, operation: object, other: Other) -> None:
    assert operation in (APPLY, UNDO)
    chosen = APPLY if operation is APPLY else UNDO
    steps = steps_of(chosen, folder)
    first = next(at for at, (name, file) in enumerate(steps) if name == "open" and file.endswith("-0.tmp"))
    with sandbox(folder) as box:
        chosen.prepare(box)
        outcome = in_child(partial(chosen.run, box), meanwhile(first, partial(other.act, box)))
        assert outcome.kind == "refused", "it came before the first renaming"
        for each in box.files:
            if each.path in other.files:
                assert other.survives(box, each)
            elif chosen is APPLY:
                assert box.file(each).read_bytes() == each.old


def test_temporary_files_that_cannot_be_removed_are_removed_by_undo(box: Sandbox) -> None:
    def closed(_: Steps, call: Call) -> object:
        """Nothing in the project's folders can be renamed or removed any more."""
        if call.name in ("replace", "unlink") and not call.file.startswith(("lock", ".gitignore", "manifest")):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return call.run()

    outcome = in_child(box.apply, closed)
    assert outcome.kind == "refused"
    assert "Permission denied" in outcome.message
    assert box.words() == ["old"] * 5
    result = Result()
    settle(box, result, "")
    assert result.wrong == []


def test_a_file_edited_before_the_way_back_keeps_its_journal(box: Sandbox) -> None:
    """A file that was new already is edited, then the disk fails: its old bytes are only in the journal."""

    def fault(steps: Steps, call: Call) -> object:
        if call.name == "replace" and call.file == "large.py":
            with steps.pause():
                (box.root / "a.py").write_bytes(b"my work")
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call.run()

    outcome = in_child(box.apply, fault)
    assert "'a.py' could not be restored; run precfix undo" in outcome.message
    assert (box.root / "a.py").read_bytes() == b"my work"
    assert box.words()[1:] == ["old"] * 4
    assert len(list((box.root / ".precfix/journal").glob("0*/before.bin"))) == 1


def test_a_takeover_that_dies_leaves_nothing(folder: Path) -> None:
    steps = steps_of(AFTER_CRASH, folder)
    numbers = [at for at, (_, file) in enumerate(steps) if file == "lock"]
    assert len(numbers) >= 8, "opened in vain, read, removed, made"
    result = Result()
    for at in numbers:
        with sandbox(folder) as box:
            AFTER_CRASH.prepare(box)
            in_child(box.apply, signaled(at, signal.SIGKILL, after=True))
            check(box, result, str(at))
            settle(box, result, str(at))
    assert result.wrong == []


def test_the_campaign_sees_what_is_wrong(box: Sandbox) -> None:
    """A case that leaves a mixture, a lost file, or a false message is counted."""
    result = Result()
    (box.root / "sub/b.yaml").write_bytes(b"half")
    (box.root / "a.py").unlink()
    (box.root / "empty.py").chmod(0o777)
    (box.outside / "b.yaml").write_bytes(b"")
    check(box, result, "case")
    assert len(result.wrong) == 4
    assert result.lost == sum(len(each.old) for each in box.files if each.path in ("a.py", "sub/b.yaml"))


def test_every_system_call_is_a_step(folder: Path) -> None:
    """No read, write or renaming goes past the counting."""
    steps = [name for name, _ in steps_of(APPLY, folder)]
    assert {"open", "read", "write", "close", "fsync", "replace", "rename", "mkdir", "unlink", "chmod"} <= set(steps)
    assert steps.count("open") <= steps.count("close")
    assert steps.count("replace") == 5 + 2, "the files, the ignore file and the manifest"


def test_the_table_in_the_documentation_is_that_of_the_campaign() -> None:
    lines = DOCS.read_text("utf-8").partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert tuple(cells[0]) == HEAD
    assert [row[0] for row in cells[2:]] == [*(row.name for row in rows()), "**all**"]
    for name, *counts, wrong, lost in cells[2:]:
        assert sum(int(count.replace(",", "")) for count in counts if count) > 0, name
        assert (wrong, lost) == ("0", "0"), name


def test_a_table_is_written_between_the_markers() -> None:
    result = Result({"apply": 1200})
    text = with_table(f"a\n{BEGIN}\nold\n{END}\nb\n", table([(rows()[0], result)]))
    assert text.startswith(f"a\n{BEGIN}\n\n| Fault |")
    assert "| killed before the step | 1,200 |" in text
    assert "old\n" not in text
    assert text.endswith(f"\n{END}\nb\n")
    with pytest.raises(SystemExit, match="missing"):
        with_table("no markers", "")
