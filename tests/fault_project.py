"""A project to put faults to, and what must hold after a fault."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from precfix.codemod.applying.apply import apply, undo
from precfix.codemod.model import UsageError
from precfix.codemod.outcome import FileChange

LARGE = bytes(range(256)) * 400
"""100 KiB, more than any buffer."""


@dataclass(frozen=True)
class Kept:
    """A file of the project: its place, permission bits, old and new bytes."""

    path: str
    mode: int
    old: bytes
    new: bytes


FILES = (
    Kept("a.py", 0o640, b"a = 1\r\n", b"a = 2\r\nb = 3\r\n"),
    Kept("empty.py", 0o644, b"", b"no longer empty\n"),
    Kept("sub/b.yaml", 0o600, b"\xff\x00 old" * 9000, b""),
    Kept("sub/deep/run.sh", 0o755, b"#!/bin/sh\n", b"#!/bin/sh\n" * 7000),
    Kept("sub/deep/large.py", 0o604, LARGE, b"#" + LARGE),
)
TARGET = FILES[2]
"""The file that other programs change."""
BIG = (*FILES, Kept("sub/huge.bin", 0o644, LARGE * 30, LARGE * 31))


@dataclass
class Result:
    """What was found after the cases of one kind."""

    cases: dict[str, int] = field(default_factory=dict)
    """How many, by what was being done (`apply`, `undo`, ...)."""
    wrong: list[str] = field(default_factory=list)
    lost: int = 0
    """Bytes that neither the files nor the journal hold any more."""
    windows: int = 0
    """Changes by another program between the last look at a file and its renaming, which nothing can see."""
    told: int = 0
    """Cases in which the next run did not just work, but named the file to delete."""

    def count(self, operation: str) -> None:
        self.cases[operation] = self.cases.get(operation, 0) + 1


State = tuple[str, int, bytes]
"""Kind (``file``, ``link``, ``none``), permission bits, bytes or link target."""


def state_of(path: Path) -> State:
    try:
        found = path.lstat()
    except OSError:
        return "none", 0, b""
    if stat.S_ISLNK(found.st_mode):
        return "link", 0, os.fsencode(os.readlink(path))
    return "file", stat.S_IMODE(found.st_mode), path.read_bytes()


def tree_of(folder: Path) -> dict[str, State]:
    """Everything below a folder that is no folder, links not followed."""
    paths = (Path(top) / name for top, folders, names in os.walk(folder) for name in (*folders, *names))
    return {str(path.relative_to(folder)): state_of(path) for path in paths if path.is_symlink() or not path.is_dir()}


class Sandbox:
    """A fresh project in a folder, with a neighbor that must stay as it is."""

    def __init__(self, folder: Path, files: tuple[Kept, ...] = FILES) -> None:
        self.files = files
        self.folder, self.root, self.outside = folder, folder / "project", folder / "outside"
        self.note = folder / "note.json"
        for each in files:
            file = self.root / each.path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(each.old)
            file.chmod(each.mode)
        (self.root / "link.sh").symlink_to("sub/deep/run.sh")
        (self.root / "untouched.txt").write_bytes(b"not ours")
        self.outside.mkdir()
        (self.outside / "b.yaml").write_bytes(TARGET.old)
        (self.outside / "new.yaml").write_bytes(TARGET.new)
        self.neighbors = tree_of(self.outside)

    def file(self, each: Kept) -> Path:
        return self.root / each.path

    def apply(self) -> None:
        """Write the new bytes; one of the files goes by the name of a link."""
        names = ["link.sh" if each.path.endswith("run.sh") else each.path for each in self.files]
        changes = [FileChange(name, each.old, each.new) for name, each in zip(names, self.files, strict=True)]
        apply(self.root, changes, allow_dirty=True)

    def undo(self) -> None:
        undo(self.root)

    def words(self) -> list[str]:
        """For each file ``old``, ``new`` or ``other``."""
        return [word_of(state_of(self.file(each)), each) for each in self.files]

    def leftovers(self) -> list[str]:
        """Files that should not be there when all is over."""
        known = {*(each.path for each in self.files), "link.sh", "untouched.txt", ".precfix/.gitignore"}
        return sorted(set(tree_of(self.root)) - known)


def word_of(state: State, each: Kept) -> str:
    words = {("file", each.mode, each.old): "old", ("file", each.mode, each.new): "new"}
    return words.get(state, "other")


def check(box: Sandbox, result: Result, what: str, spared: tuple[str, ...] = ()) -> None:
    """Each file (less ``spared``: another program has changed them) is old or new, and all others are as they were."""
    for each, word in zip(box.files, box.words(), strict=True):
        if word == "other" and each.path not in spared:
            _note_loss(box, result, what, each, "is neither old nor new")
    now = tree_of(box.outside)
    if {name: now.get(name) for name in box.neighbors} != box.neighbors:
        result.wrong.append(f"{what}: a file outside the project was changed")
    if state_of(box.root / "untouched.txt")[2] != b"not ours":
        result.wrong.append(f"{what}: a file that is no part of the run was changed")


def settle(box: Sandbox, result: Result, what: str) -> None:
    """Undo, apply and undo again, as a user would go on after a fault; whatever does not work goes to ``result``."""
    undo_as_told(box, result, what)
    for each, word in zip(box.files, box.words(), strict=True):
        if word != "old":
            _note_loss(box, result, what, each, "is not old after undo")
    go_on(box, result, what)


_FINE: set[frozenset[object]] = set()
"""What projects looked like, links and folders and permissions and bytes, in which a new run has worked."""


def go_on(box: Sandbox, result: Result, what: str) -> None:
    """A new run and its undo work, and nothing stays behind; tried once for projects that look the same."""
    found = ((name, kind, mode, hash(data)) for name, (kind, mode, data) in tree_of(box.root).items())
    looks = frozenset({len(box.files), *found, *_folders(box.root)})
    wrong = len(result.wrong)
    if looks not in _FINE:
        _go_on(box, result, what)
        if len(result.wrong) == wrong:
            _FINE.add(looks)


def _folders(root: Path) -> Iterator[tuple[str, int]]:
    for top, _, _ in os.walk(root):
        yield os.path.relpath(top, root), os.stat(top).st_mode


def _go_on(box: Sandbox, result: Result, what: str) -> None:
    try:
        box.apply()
        if box.words() != ["new"] * len(box.files):
            result.wrong.append(f"{what}: the next run left {box.words()}")
        box.undo()
    except UsageError as error:
        result.wrong.append(f"{what}: the next run was refused: {error}")
    if box.leftovers():
        result.wrong.append(f"{what}: left behind {box.leftovers()}")
    if box.words() != ["old"] * len(box.files):
        result.wrong.append(f"{what}: the next undo left {box.words()}")
    check(box, result, what)


def _note_loss(box: Sandbox, result: Result, what: str, each: Kept, why: str) -> None:
    found = state_of(box.file(each))
    result.wrong.append(f"{what}: {each.path} {why}: {found[0]} {found[1]:o} {found[2][:20]!r}")
    if found[2] not in (each.old, each.new) or found[0] != "file":
        result.lost += len(each.old)


def undo_as_told(box: Sandbox, result: Result, what: str) -> None:
    """Undo, do what the message says, and try again."""
    for _ in range(4):
        try:
            box.undo()
            return
        except UsageError as error:
            message = str(error)
        if "nothing to undo" in message:
            return
        if "if it is not, delete" not in message or "\n" in message:
            result.wrong.append(f"{what}: undo was refused: {message}")
            return
        result.told += 1
        Path(message.rpartition("delete ")[2].strip("'")).unlink()
    result.wrong.append(f"{what}: undo is refused for ever")
