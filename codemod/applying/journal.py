"""What an apply is about to overwrite, kept under ``<root>/.precfix/journal/<number>/`` until ``precfix undo``.

Each entry holds ``manifest.json`` and ``before.bin`` (the old bytes of all files, one after the other). An entry comes
into being whole, by renaming a finished folder. The folder ``.precfix`` ignores itself in git. It may have come with a
hostile project, so everything read from it is checked, and links in it are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..model import UsageError
from .replacing import Attributes, read_regular, replace_file, sync_folder, write_new

VERSION = 1
WRITING, DONE = "writing", "done"
FOLDER = ".precfix"
_MAX_MANIFEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One file of a journal: where it is (relative, links resolved), and what it was and became."""

    path: str
    mode: int
    offset: int
    size: int
    before: str
    after: str
    """SHA-256 of the old and of the new bytes."""


@dataclass(frozen=True, slots=True)
class Journal:
    """One apply: the files it wrote. ``folder`` is None when there was nothing to write."""

    folder: Path | None
    state: str
    token: str
    """Part of the names of its temporary files, so that they can be found after a crash."""
    files: tuple[JournalEntry, ...]

    def temporary(self, root: Path, index: int) -> Path:
        """The temporary file of the entry at ``index``: beside the file, so that renaming stays on one disk."""
        return (root / self.files[index].path).parent / f".precfix-{self.token}-{index}.tmp"


def digest(data: bytes) -> str:
    """The SHA-256 of ``data`` as hex digits."""
    return hashlib.sha256(data).hexdigest()


def open_store(root: Path) -> Path:
    """Make ``<root>/.precfix`` with its ``.gitignore`` if needed; raises UsageError or OSError."""
    store = _own_folder(root / FOLDER, create=True)
    if not os.path.lexists(store / ".gitignore"):
        draft = store / ".gitignore.new"  # a crash must not leave an empty one for good
        draft.unlink(missing_ok=True)
        replace_file(store / ".gitignore", b"*\n", None, draft)
    _own_folder(store / "journal", create=True)
    return store


def find_store(root: Path) -> Path | None:
    """``<root>/.precfix`` when it has a journal; raises UsageError when it is a link."""
    store = root / FOLDER
    if not os.path.lexists(store) or not os.path.lexists(_own_folder(store) / "journal"):
        return None
    _own_folder(store / "journal")
    return store


def _own_folder(path: Path, *, create: bool = False) -> Path:
    if create and not os.path.lexists(path):
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)
    if path.is_symlink() or not path.is_dir():
        raise UsageError(f"{str(path)!r} is not an ordinary folder; precfix keeps its journal there")
    return path


def latest(store: Path) -> Journal | None:
    """The newest journal, or None; raises UsageError when it cannot be trusted, OSError when it cannot be read."""
    numbers = _numbers(store)
    return _load(store / "journal" / numbers[-1]) if numbers else None


def _numbers(store: Path) -> list[str]:
    names = [entry.name for entry in os.scandir(store / "journal")]
    return sorted((name for name in names if name.isascii() and name.isdigit() and len(name) < 20), key=int)


def record(store: Path, files: Sequence[tuple[str, bytes, bytes, Attributes]]) -> Journal:
    """Keep path, old bytes, new bytes' hash and attributes of ``files`` on the disk; raises OSError."""
    entries, offset = [], 0
    for path, before, after, attributes in files:
        entries.append(JournalEntry(path, attributes.mode, offset, len(before), digest(before), digest(after)))
        offset += len(before)
    folder = store / "journal"
    _sweep(folder)
    numbers = _numbers(store)
    final = folder / f"{int(numbers[-1]) + 1 if numbers else 1:06}"
    journal = Journal(final, WRITING, secrets.token_hex(6), tuple(entries))
    draft = folder / f"draft-{journal.token}"
    try:
        draft.mkdir(mode=0o700)  # the files may be readable by their owner alone (.env)
        write_new(draft / "before.bin", b"".join(before for _, before, _, _ in files))
        write_new(draft / "manifest.json", _dumped(journal))
        sync_folder(draft)
        os.rename(draft, final)
        sync_folder(folder)
    except BaseException:
        for half in (draft, final):
            shutil.rmtree(half, ignore_errors=True)
        raise
    return journal


def _sweep(folder: Path) -> None:
    """Remove what a crash has left half made or half removed."""
    for entry in os.scandir(folder):
        if entry.name.startswith(("draft-", "old-")) and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)


def finish(journal: Journal) -> Journal:
    """Note that every file has its new bytes; raises OSError."""
    assert journal.folder is not None
    done = replace(journal, state=DONE)
    draft = journal.folder / "manifest.new"
    draft.unlink(missing_ok=True)
    write_new(draft, _dumped(done))
    os.replace(draft, journal.folder / "manifest.json")
    sync_folder(journal.folder)
    return done


def forget(journal: Journal) -> None:
    """Remove a journal, in one step as seen from outside; raises OSError."""
    assert journal.folder is not None
    old = journal.folder.with_name(f"old-{journal.token}")
    os.rename(journal.folder, old)
    sync_folder(old.parent)
    shutil.rmtree(old, ignore_errors=True)


def old_bytes(journal: Journal) -> list[bytes]:
    """The old bytes of each file; raises UsageError when they are damaged, OSError when they cannot be read."""
    assert journal.folder is not None
    kept, _ = read_regular(journal.folder / "before.bin")
    pieces = [kept[entry.offset : entry.offset + entry.size] for entry in journal.files]
    for piece, entry in zip(pieces, journal.files, strict=True):
        if digest(piece) != entry.before:
            raise UsageError(f"the journal in {str(journal.folder)!r} is damaged: {entry.path!r} cannot be restored")
    return pieces


def _dumped(journal: Journal) -> bytes:
    files = [asdict(entry) for entry in journal.files]
    return json.dumps({"version": VERSION, "state": journal.state, "token": journal.token, "files": files}).encode()


def _load(folder: Path) -> Journal:
    _own_folder(folder)
    data, _ = read_regular(folder / "manifest.json", _MAX_MANIFEST)
    try:
        raw = json.loads(data)
        files = tuple(_entry(each) for each in raw["files"])
        journal = Journal(folder, raw["state"], raw["token"], files)
        known = raw["version"] == VERSION and journal.state in (WRITING, DONE)
        if not known or len(bytes.fromhex(journal.token)) != 6:
            raise ValueError(journal.state)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise UsageError(f"the journal in {str(folder)!r} cannot be understood; nothing was restored") from None
    return journal


def _entry(raw: dict[str, object]) -> JournalEntry:
    texts = [raw[name] for name in ("path", "before", "after")]
    numbers = [raw[name] for name in ("mode", "offset", "size")]
    path, before, after = (text for text in texts if isinstance(text, str))
    mode, offset, size = (number for number in numbers if isinstance(number, int) and number >= 0)
    return JournalEntry(path, mode & 0o777, offset, size, before, after)
