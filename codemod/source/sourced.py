"""Files that a launch script of the project reads with ``source``: part of the run even where git ignores them.

Trainers keep a user's own ``config.env`` out of git and read it in ``train.sh``; what it says decides the run.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator

from .documents import FileKind, kind_of
from .reading import FileRefused, read_regular_file

MAX_SCRIPT_BYTES = 1_000_000
_SOURCE = re.compile(
    rb"""(?:^|[;&|(]|\bthen|\bdo)[ \t]*(?:source|\.)[ \t]+(["']?)([\w./+-]+)\1[ \t]*(?=$|[;&|)#])""", re.MULTILINE
)


def sourced_files(root: str, paths: set[str], asked: list[str]) -> Iterator[str]:
    """Paths, relative to ``root``, that the shell scripts among ``paths`` name outright and that are not in it yet.

    Only regular files inside the root count, by a literal name, relative to the root or to the script. ``asked`` gets
    the absolute paths of all files that were looked for.
    """
    for script in sorted(path for path in paths if kind_of(path) is FileKind.SHELL):
        for name in _named_in(os.path.join(root, *script.split("/"))):
            for folder in ("", script.rpartition("/")[0]):
                found = os.path.normpath(os.path.join(folder, name)).replace(os.sep, "/")
                if found not in paths and kind_of(found) is not None:
                    asked.append(os.path.join(root, *found.split("/")))
                    if _is_plain_file(root, found):
                        yield found


def _named_in(script: str) -> list[str]:
    try:
        data = read_regular_file(script, MAX_SCRIPT_BYTES)
    except (FileRefused, OSError, ValueError):
        return []
    lines = b"\n".join(line for line in data.splitlines() if not line.lstrip().startswith(b"#"))
    return [match[2].decode("ascii") for match in _SOURCE.finditer(lines) if match[2].isascii()]


def _is_plain_file(root: str, path: str) -> bool:
    """A regular file reached without any symbolic link and without leaving the root."""
    if path.startswith(("../", "/")) or path == "..":
        return False
    full = os.path.join(root, *path.split("/"))
    try:
        regular = stat.S_ISREG(os.lstat(full).st_mode)
        return regular and os.path.realpath(full) == os.path.join(os.path.realpath(root), *path.split("/"))
    except (OSError, ValueError):
        return False
