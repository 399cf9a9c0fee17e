"""What files and folders looked like: by their metadata, and by their content where that is not proof enough.

A file whose metadata is as it was has the same bytes, unless it was written so shortly before it was looked at that a
later change may have been given the same time. A file with other metadata may still have the same bytes.
"""

from __future__ import annotations

import os
import stat
import time

FileState = tuple[str, str, bool]
"""Metadata (empty: there is nothing), content, and whether the metadata alone is no proof."""
FRESH_NS = 2_000_000_000
"""Changed within this time before it was looked at: the coarsest clock of a file system counts by two seconds."""
MAX_BYTES = 100_000_000
"""The content of larger files is not asked for (no rule reads them): their metadata has to do."""
_UNREAD = (
    "bin bmp ckpt csv err gif gz jpeg jpg log md5 mp4 npy npz onnx out parquet pdf pickle pid pkl png pt pth pyc pyo"
    " safetensors so swp tar tmp tsv zip"
)
UNREAD_SUFFIXES = frozenset(f".{each}" for each in _UNREAD.split())
"""Files of no interest, whatever else their names say: a run of the project makes such ones all the time."""
READ_BEGINNINGS = (".env", "dockerfile", "makefile")
"""Names that begin so are of interest whatever their suffix."""
UNREAD_FOLDERS = frozenset(
    {".git", "__pycache__", ".ipynb_checkpoints", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".precfix"}
)


def metadata(path: str) -> str:
    """Size, times, number and kind of what lies at a path, that of a link and of its target; empty for nothing."""
    try:
        found = os.lstat(path)
        told = f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} {found.st_mode}"
        if stat.S_ISLNK(found.st_mode):
            told += " -> " + _of_target(path)
        return told
    except (OSError, ValueError):
        return ""


def _of_target(path: str) -> str:
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return "nothing"
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns} {found.st_ino} {found.st_mode}"


def changed_ns(path: str) -> int:
    """When a path, or what its link leads to, was last changed, by the clock that nobody can set back where one is."""
    latest = 0
    for look in (os.lstat, os.stat):
        try:
            found = look(path)
        except (OSError, ValueError):
            continue
        latest = max(latest, found.st_mtime_ns if os.name == "nt" else found.st_ctime_ns)
    return latest


def state_of(path: str) -> FileState:
    """The state of a file or folder now."""
    now = time.time_ns()
    told = metadata(path)
    return told, content(path) if told else "", changed_ns(path) > now - FRESH_NS


def is_still(path: str, known: FileState) -> FileState | None:
    """The present state when the content is still that of ``known``, else None."""
    told, held, fresh = known
    if not fresh and metadata(path) == told:
        return known
    present = state_of(path)
    return present if (held and present[1] == held) or present[0] == told == "" else None


def content(path: str) -> str:
    """A digest of a file's bytes, or of the names in a folder that matter; empty where that cannot be told."""
    from hashlib import blake2b

    try:
        if os.path.isdir(path):
            return "names " + blake2b("\0".join(names_in(path)).encode("utf-8", "backslashreplace")).hexdigest()[:32]
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_BYTES:
            return ""
        with open(path, "rb") as file:
            digest = "bytes " + blake2b(file.read()).hexdigest()[:32]
        return f"{digest} of {os.path.realpath(path)}" if os.path.islink(path) else digest
    except (OSError, ValueError):
        return ""


def names_in(folder: str) -> list[str]:
    """The names in a folder, folders with a slash, less those of files and folders that are never read."""
    with os.scandir(folder) as entries:
        return sorted(filter(None, map(_told, entries)))


def _told(entry: os.DirEntry[str]) -> str:
    if entry.is_dir(follow_symlinks=False):
        return "" if entry.name in UNREAD_FOLDERS else entry.name + "/"
    name = entry.name.lower()
    unread = os.path.splitext(name)[1] in UNREAD_SUFFIXES and not name.startswith(READ_BEGINNINGS)
    return "" if unread else entry.name
