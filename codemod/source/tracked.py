"""Files that git tracks although an ignore rule names them: they are part of the repository all the same.

Which files git tracks stands in its index, ``.git/index``; git itself is not run. A linked work tree or a submodule,
where ``.git`` is a file, is not followed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from itertools import pairwise

from .documents import kind_of
from .named_files import is_plain_file
from .reading import FileRefused, read_regular_file

MAX_INDEX_BYTES, MAX_NAME = 100_000_000, 65_536
EXCEPT = ", except files that git tracks or the project names"
HEADER, FIXED, EXTENDED = 12, 62, 0x4000
"""Bytes of the header and of an entry before its name (SHA-1), and the flag of two more bytes."""


def tracked_files(root: str, ignored: Mapping[str, str], reason: str, asked: list[str]) -> Iterator[str]:
    """Of the files left out for ``reason``, and of those in folders left out for it, the ones that git tracks.

    ``ignored`` maps paths relative to ``root`` (folders end with a slash) to reasons; ``asked`` gets the index's path.
    """
    left_out = {path for path, why in ignored.items() if why == reason}
    top = _top(root) if left_out else None
    if top is None:
        return
    index = os.path.join(top, ".git", "index")
    asked.append(index)
    below = os.path.relpath(root, top).replace(os.sep, "/")
    prefix = "" if below == "." else f"{below}/"
    for name in _names(index):
        path = name.removeprefix(prefix)
        wanted = name.startswith(prefix) and kind_of(path) is not None and _is_left_out(path, left_out)
        if wanted and is_plain_file(root, path):
            yield path


def told(left_out: Mapping[str, str], read: Set[str], added: Set[str]) -> dict[str, str]:
    """What is left out and why, without what is read after all; of a folder that holds such files that is said."""
    holders = {f"{folder}/" for path in added for folder in folders_of(path)}
    partly = {path: f"{left_out[path]}{EXCEPT}" for path in holders.intersection(left_out)}
    return {path: reason for path, reason in sorted({**left_out, **partly}.items()) if path not in read}


def folders_of(path: str) -> Iterator[str]:
    """The folders that hold a file, the outermost first."""
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _is_left_out(path: str, left_out: set[str]) -> bool:
    return path in left_out or any(f"{folder}/" in left_out for folder in folders_of(path))


def _top(folder: str) -> str | None:
    """The nearest folder at or above ``folder`` that has a ``.git``; None where that is no folder."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder if os.path.isdir(os.path.join(folder, ".git")) else None


def _names(index: str) -> tuple[str, ...]:
    """The paths in an index of version 2 to 4; none where it is missing or is not what it should be."""
    try:
        data = read_regular_file(index, MAX_INDEX_BYTES)
    except (FileRefused, OSError, ValueError):
        return ()
    version = int.from_bytes(data[4:8], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4):
        return ()
    names = tuple(_entries(data, version, int.from_bytes(data[8:12], "big")))
    return tuple(map(os.fsdecode, names)) if all(a <= b for a, b in pairwise(names)) else ()


def _entries(data: bytes, version: int, count: int) -> Iterator[bytes]:
    at, name = HEADER, b""
    for _ in range(count):
        flags = int.from_bytes(data[at + FIXED - 2 : at + FIXED], "big")
        start = at + FIXED + (2 if flags & EXTENDED and version > 2 else 0)
        kept = 0
        if version == 4:
            dropped, start = _varint(data, start)
            kept = max(len(name) - dropped, 0)
        end = data.find(b"\0", start)
        if end < 0 or end - start > MAX_NAME:
            return
        name = name[:kept] + data[start:end]
        yield name
        at = end + 1 if version == 4 else at + (end - at + 8) // 8 * 8


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Git's number of variable length, and where it ends."""
    value = 0
    for step, byte in enumerate(data[at : at + 9]):
        value = ((value + 1) << 7 if step else 0) | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    return 0, len(data)
