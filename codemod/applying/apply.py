"""Writing the changes of a run: all files or none, and `undo` to take them back.

Order: compare every file with what was read, keep the old bytes in the journal, write and sync a temporary file beside
each file, and only then rename. A crash at any moment leaves each file with its old or its new bytes, and the journal
knows both. Nothing here runs, imports or parses the project.

What another program does to a file is noticed up to the last look at it, just before the rename: the file is opened,
read and compared, and its path searched for links. A change after that look, and before the rename, is overwritten.

Limits: a replaced file is a new inode, so other hard links to it keep the old bytes, and extended attributes and ACLs
are not copied; the owner is kept where the system allows it. A symbolic link inside the project stays, and the file it
stands for is replaced. Journals stay until undone; deleting ``.precfix`` forgets them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..model import UsageError
from ..outcome import FileChange
from . import journal as journals
from .journal import WRITING, Journal, JournalEntry, digest
from .lock import locked
from .replacing import (
    Attributes,
    failure,
    read_regular,
    real_file,
    real_root,
    refuse_changed,
    replace_file,
    sync_folder,
    unlinked_place,
    write_new,
)
from .worktree import dirty_files


@dataclass(frozen=True, slots=True)
class _Target:
    """A change with the real file it goes to; ``path`` is relative to the root, links resolved."""

    path: str
    file: Path
    change: FileChange
    attributes: Attributes


def apply(root: Path, changes: Sequence[FileChange], *, allow_dirty: bool) -> Journal:
    """Write ``changes`` below ``root``, all or none, and keep the old bytes for `undo`.

    Raises UsageError, and then no file has changed: when a file is not what ``before`` says, leaves the root through a
    link, or may not be written; when it has changes that are not committed to git (unless ``allow_dirty``; untracked
    files are fine, see `dirty_files`); when another run is writing, or an interrupted one has to be undone first; and
    when the disk refuses. If even going back fails, the message says so and names ``precfix undo``.
    """
    home = real_root(root)
    try:
        targets = _targets(home, changes)
        if not targets:
            return Journal(None, journals.DONE, "", ())
        if not allow_dirty:
            _refuse_dirty(home, targets)
        store = journals.open_store(home)
        with locked(store):
            _refuse_interrupted(journals.latest(store))
            targets = _targets(home, changes)  # again: now no other run can change them
            files = [(each.path, each.change.before, each.change.after, each.attributes) for each in targets]
            return _write(home, journals.record(store, files), targets)
    except OSError as error:
        raise UsageError(f"nothing was written: {failure(error)}") from error


def _targets(home: Path, changes: Sequence[FileChange]) -> list[_Target]:
    """The files to write; raises UsageError for the first that may not be written or is not what was read."""
    found: dict[Path, _Target] = {}
    for change in changes:
        if change.before == change.after:
            continue
        file = real_file(home, change.path)
        target = _Target(file.relative_to(home).as_posix(), file, change, _unchanged(file, change))
        other = found.setdefault(file, target)
        if other.change.after != change.after:
            raise UsageError(f"{other.change.path!r} and {change.path!r} are the same file; nothing was written")
    return list(found.values())


def _unchanged(file: Path, change: FileChange) -> Attributes:
    data, attributes = read_regular(file)
    if not os.access(file, os.W_OK):
        raise UsageError(f"{change.path!r} is read-only; nothing was written")
    if data != change.before:
        raise UsageError(f"{change.path!r} has changed since it was read; nothing was written, run again")
    return attributes


def _refuse_dirty(home: Path, targets: Sequence[_Target]) -> None:
    dirty = sorted(dirty_files(home, [target.path for target in targets]))
    if dirty:
        raise UsageError(
            f"uncommitted changes in {_listed(dirty)}; commit or stash them first, or use --allow-dirty"
            " (precfix undo works either way)"
        )


def _listed(paths: Sequence[str], most: int = 10) -> str:
    more = f" and {len(paths) - most} more" if len(paths) > most else ""
    return ", ".join(repr(path) for path in paths[:most]) + more


def _refuse_interrupted(last: Journal | None) -> None:
    if last is not None and last.state == WRITING:
        raise UsageError("an earlier run was interrupted while it wrote; run precfix undo first")


def _write(home: Path, journal: Journal, targets: Sequence[_Target]) -> Journal:
    replaced: list[int] = []
    try:
        for index, target in enumerate(targets):
            refuse_changed(home, target.path, target.change.before, target.attributes)
            write_new(journal.temporary(home, index), target.change.after, target.attributes)
        for index, target in enumerate(targets):
            refuse_changed(home, target.path, target.change.before, target.attributes)
            replaced.append(index)  # before the step: an interrupt right after it must find the file here
            os.replace(journal.temporary(home, index), target.file)
        for folder in {target.file.parent for target in targets}:
            sync_folder(folder)
        return journals.finish(journal)
    except BaseException as error:
        _roll_back(home, journal, targets, replaced)
        if isinstance(error, OSError):
            raise UsageError(f"nothing was written: {failure(error)}") from error
        raise


def _roll_back(home: Path, journal: Journal, targets: Sequence[_Target], replaced: Sequence[int]) -> None:
    """Give every file its old bytes again; raises UsageError when that fails too (the journal then stays)."""
    with suppress(OSError):  # makes room for the old bytes on a full disk
        _remove_temporaries(home, journal)
    stuck = []
    for index in replaced:
        try:
            _set_back(home, targets[index], journal.temporary(home, index))
        except (OSError, UsageError):
            stuck.append(targets[index].path)
    if stuck:
        raise UsageError(f"writing failed, and {_listed(stuck)} could not be restored; run precfix undo")
    with suppress(OSError):  # a journal too many does no harm: undo finds old bytes, and what could not be removed
        _remove_temporaries(home, journal)
        journals.forget(journal)


def _set_back(home: Path, target: _Target, temporary: Path) -> None:
    """Give a file its old bytes; raises UsageError when it has neither those nor the new ones, OSError."""
    data, attributes = read_regular(target.file)
    if data == target.change.before:  # the step failed or never came
        return
    if data != target.change.after:
        raise UsageError(f"{target.path!r} was edited meanwhile")
    still = partial(refuse_changed, home, target.path, data, attributes)
    replace_file(target.file, target.change.before, attributes, temporary, still)


def _remove_temporaries(home: Path, journal: Journal) -> None:
    for index in range(len(journal.files)):
        journal.temporary(home, index).unlink(missing_ok=True)


def undo(root: Path, *, force: bool = False) -> tuple[str, ...]:
    """Take back the latest `apply` that is not undone yet (also an interrupted one); the paths that were set back.

    A file that has neither the bytes apply wrote nor the old ones has been edited since: then UsageError names those
    files and none is set back, unless ``force`` says to overwrite them. Also raises UsageError when there is nothing
    to undo, the journal is damaged, another run is writing, or the disk refuses (undo can then be run again).
    """
    home = real_root(root)
    try:
        store = journals.find_store(home)
        if store is None:
            raise UsageError("nothing to undo")
        with locked(store):
            journal = journals.latest(store)
            if journal is None:
                raise UsageError("nothing to undo")
            restored = _restore(home, journal, force)
            _remove_temporaries(home, journal)
            journals.forget(journal)
            return restored
    except OSError as error:
        raise UsageError(f"undo failed; fix this and run it again: {failure(error)}") from error


def _restore(home: Path, journal: Journal, force: bool) -> tuple[str, ...]:
    pieces = journals.old_bytes(journal)
    found = [_present(home, entry) for entry in journal.files]
    edited = [
        entry.path
        for entry, present in zip(journal.files, found, strict=True)
        if present is None or digest(present[0]) not in (entry.before, entry.after)
    ]
    if edited and not force:
        raise UsageError(f"edited or removed since: {_listed(edited)}; nothing was restored (--force overwrites them)")
    _remove_temporaries(home, journal)
    restored = []
    for index, (entry, present) in enumerate(zip(journal.files, found, strict=True)):
        if present is not None and digest(present[0]) == entry.before:
            continue
        attributes = present[1] if present else _for_removed(home / entry.path, entry)
        still = partial(_refuse_other, home, entry.path, present)
        replace_file(home / entry.path, pieces[index], attributes, journal.temporary(home, index), still)
        restored.append(entry.path)
    return tuple(restored)


def _refuse_other(home: Path, path: str, present: tuple[bytes, Attributes] | None) -> None:
    """Raise UsageError when what is at ``path`` is not what undo found there when it began."""
    if present is not None:
        refuse_changed(home, path, *present)
    elif os.path.lexists(unlinked_place(home, path)):
        raise UsageError(f"{path!r} exists again and was not overwritten; run undo again")


def _for_removed(file: Path, entry: JournalEntry) -> Attributes:
    folder = file.parent.stat()
    return Attributes(entry.mode, folder.st_uid, folder.st_gid)


def _present(home: Path, entry: JournalEntry) -> tuple[bytes, Attributes] | None:
    """What is at an entry's path now; None when there is nothing. Raises UsageError when a link has come into it."""
    place = unlinked_place(home, entry.path)
    return read_regular(place) if os.path.lexists(place) else None
