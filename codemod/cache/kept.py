"""Kept files: plain values under a name, written whole or not at all, read only when they are undamaged.

A file is a line with a checksum and JSON. Several runs may write at once (each file is renamed into place), a full disk
or a crash leaves at most a temporary file, and the oldest go when there are too many.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib
from contextlib import suppress

from .folder import belongs_to_user, folder_to_read, folder_to_write, is_own

KINDS = ("answers", "findings", "tables", "words")
"""What is kept, each in a folder of its own."""
MAX_BYTES = 64_000_000
"""Of one file."""
MAX_FOLDER_BYTES = 256_000_000
"""Of all files of one kind."""
MAX_FILES = 500
"""Of one kind."""
_MAGIC = b"precfix 1 "
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_DAY = 86_400


def name_of(key: str) -> str:
    """A file name for a key. Two keys may share one: what is kept says its key, and a wrong one is a miss."""
    data = key.encode("utf-8", "backslashreplace")
    return f"{zlib.crc32(data):08x}{zlib.adler32(data):08x}"


def _is_ours(name: str) -> bool:
    """Whether a name is one that `write` gives: in a folder that is named by mistake nothing else is deleted."""
    return len(name.partition(".")[0]) == 16 and set(name[:16]) <= set("0123456789abcdef")


def read(kind: str, key: str) -> object:
    """What was kept under this key; None when nothing was, or it is damaged."""
    folder = folder_to_read()
    if folder is None or not is_own(os.path.join(folder, kind)):
        return None
    path = os.path.join(folder, kind, name_of(key))
    try:
        data = _bytes_of(path)
        checksum, _, text = data[len(_MAGIC) :].partition(b"\n")
        if not data.startswith(_MAGIC) or int(checksum, 16) != zlib.crc32(text):
            return None
        kept = json.loads(text)
    except (OSError, ValueError, RecursionError, MemoryError):
        return None
    return kept[1] if isinstance(kept, list) and len(kept) == 2 and kept[0] == key else None


def _bytes_of(path: str) -> bytes:
    """Raises OSError, or ValueError for what is no file of the user's own."""
    descriptor = os.open(path, _READ)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not belongs_to_user(found) or found.st_size > MAX_BYTES:
            raise ValueError(path)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(found.st_size)
        if time.time() - found.st_mtime > _DAY:
            os.utime(path)  # the oldest go first
        return data
    finally:
        os.close(descriptor)


def write(kind: str, key: str, value: object) -> bool:
    """Keep a plain value; False when that is not possible."""
    try:
        text = json.dumps([key, value], separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        return False
    top = folder_to_write()
    if top is None or len(text) > MAX_BYTES - 100:
        return False
    folder = os.path.join(top, kind)
    path = os.path.join(folder, name_of(key))
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not is_own(folder):
            return False
        _make_room(folder)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_MAGIC + f"{zlib.crc32(text):08x}\n".encode() + text)
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)
        return False
    return True


def _make_room(folder: str) -> None:
    """Delete the oldest files while there are too many, and what killed runs left."""
    found = sorted((state.st_mtime, path, state.st_size) for path, state in _files_of(folder))
    number, total, now = len(found), sum(size for _, _, size in found), time.time()
    for changed, path, size in found:
        left_over = path.endswith(".tmp") and now - changed > _DAY
        if left_over or number >= MAX_FILES or total > MAX_FOLDER_BYTES - MAX_BYTES:
            os.unlink(path)
            number, total = number - 1, total - size


def _files_of(folder: str) -> list[tuple[str, os.stat_result]]:
    with os.scandir(folder) as entries:
        return [(entry.path, entry.stat(follow_symlinks=False)) for entry in entries if _is_ours(entry.name)]


def delete_all(folder: str) -> tuple[int, int]:
    """Delete all that is kept in a folder; how many files there were, and their bytes. Raises OSError."""
    found = [
        (path, state.st_size)
        for kind in KINDS
        if is_own(os.path.join(folder, kind))
        for path, state in _files_of(os.path.join(folder, kind))
    ]
    for path, _ in found:
        os.unlink(path)
    return len(found), sum(size for _, size in found)
