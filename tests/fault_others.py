"""What other programs do in a project while precfix writes to it, and whether that is still there afterwards."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from precfix.codemod.model import UsageError

from .fault_project import FILES, TARGET, Kept, Sandbox, State, state_of, tree_of, word_of

FOREIGN = b"what another program wrote\n"


@dataclass(frozen=True)
class Other:
    """What another program does meanwhile: to ``files``, or to precfix's own folder."""

    name: str
    act: Callable[[Sandbox], None]
    files: tuple[str, ...] = ()
    survives: Callable[[Sandbox, Kept], bool] = lambda box, each: True
    """Whether what it did to a file is still there."""


def _edit(box: Sandbox, path: str = TARGET.path) -> None:
    if (box.root / path).is_file():
        (box.root / path).write_bytes(FOREIGN)


def _save(box: Sandbox) -> None:
    (box.root / "sub/b.yaml~").write_bytes(FOREIGN)
    os.chmod(box.root / "sub/b.yaml~", TARGET.mode)
    os.rename(box.root / "sub/b.yaml~", box.file(TARGET))


def _link(box: Sandbox) -> None:
    old = box.file(TARGET).read_bytes() == TARGET.old
    box.file(TARGET).unlink()
    box.file(TARGET).symlink_to(box.outside / ("b.yaml" if old else "new.yaml"))


def _move_folder(box: Sandbox) -> None:
    os.rename(box.root / "sub", box.root / "moved")


def _link_folder(box: Sandbox) -> None:
    os.rename(box.root / "sub", box.outside / "sub")
    (box.root / "sub").symlink_to(box.outside / "sub")
    box.note.write_bytes(pickle.dumps(tree_of(box.outside / "sub")))


def _link_own_folder(box: Sandbox) -> None:
    if (box.root / ".precfix").exists():
        os.rename(box.root / ".precfix", box.folder / "own")
        shutil.copytree(box.folder / "own", box.outside / "own")
        (box.root / ".precfix").symlink_to(box.outside / "own")


def _manifests(box: Sandbox, name: str) -> Iterator[Path]:
    return (box.root / ".precfix/journal").glob(f"0*/{name}")


def _spoil(box: Sandbox, name: str) -> None:
    for path in _manifests(box, name):
        path.write_bytes(path.read_bytes()[:-1])


def _another(run: Callable[[], None]) -> None:
    with suppress(UsageError):  # it was told that this run is writing, or that there is nothing to do
        run()


def _holds(kind: str, mode: int | None = None, data: bytes | None = None) -> Callable[[Sandbox, Kept], bool]:
    def survives(box: Sandbox, each: Kept) -> bool:
        found = state_of(box.file(each))
        return found[0] == kind and mode in (None, found[1]) and data in (None, found[2])

    return survives


def _moved_intact(box: Sandbox, each: Kept) -> bool:
    return word_of(state_of(box.root / each.path.replace("sub", "moved", 1)), each) != "other"


def _stayed_outside(box: Sandbox, each: Kept) -> bool:
    """The files behind the link are as they were when it was made, and nothing came beside them."""
    before: dict[str, State] = pickle.loads(box.note.read_bytes()) if box.note.exists() else {}
    now = tree_of(box.outside / "sub")
    inside = each.path.removeprefix("sub/")
    return now.get(inside) == before.get(inside) and now.keys() <= before.keys()


_SUB = tuple(each.path for each in FILES if each.path.startswith("sub/"))

EDITS = tuple(
    Other(f"edits {each.path}", partial(_edit, path=each.path), (each.path,), _holds("file", each.mode, FOREIGN))
    for each in FILES
)
OTHERS = (
    Other("saves a file by renaming", _save, (TARGET.path,), _holds("file", TARGET.mode, FOREIGN)),
    Other("deletes a file", lambda box: box.file(TARGET).unlink(), (TARGET.path,), _holds("none")),
    Other("changes a file's mode", lambda box: box.file(TARGET).chmod(0o444), (TARGET.path,), _holds("file", 0o444)),
    Other("turns a file into a link out of the project", _link, (TARGET.path,), _holds("link")),
    Other("deletes a folder", lambda box: shutil.rmtree(box.root / "sub"), _SUB, _holds("none")),
    Other("moves a folder away", _move_folder, _SUB, _moved_intact),
    Other("turns a folder into a link out of the project", _link_folder, _SUB, _stayed_outside),
)
OWN_FOLDER = (
    Other("deletes .precfix", lambda box: shutil.rmtree(box.root / ".precfix", ignore_errors=True)),
    Other("deletes the journal", lambda box: shutil.rmtree(box.root / ".precfix/journal", ignore_errors=True)),
    Other("deletes the lock", lambda box: (box.root / ".precfix/lock").unlink(missing_ok=True)),
    Other("turns .precfix into a link out of the project", _link_own_folder),
    Other("cuts the journal's manifest", lambda box: _spoil(box, "manifest.json")),
    Other("cuts the journal's kept bytes", lambda box: _spoil(box, "before.bin")),
)
RUNS = (
    Other("another precfix migrates", lambda box: _another(box.apply)),
    Other("another precfix undoes", lambda box: _another(box.undo)),
)
