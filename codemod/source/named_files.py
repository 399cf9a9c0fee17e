"""Files that git ignores and that are part of a run all the same, because something of the project reads them.

Trainers keep a user's own ``config.env`` or ``config.json`` out of git; what it says decides the run. It is read where
a launch script names it (``source config.env``, ``--config configs/mine.yaml``), or where a trainer reads it unasked.
So is what the project is installed from.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping

from .documents import FileKind, kind_of
from .reading import FileRefused, read_regular_file

MAX_SCRIPT_BYTES = 1_000_000
_SOURCE = re.compile(
    rb"""(?:^|[;&|(]|\bthen|\bdo)[ \t]*(?:source|\.)[ \t]+(["']?)([\w./+-]+)\1[ \t]*(?=$|[;&|)#])""", re.MULTILINE
)
_CONFIG = re.compile(
    rb"""(?:(?<![\w-])(?:--?[\w-]*(?:config|cfg|deepspeed)[\w-]*[ \t=]|\w*(?:config|cfg)\w*=)[ \t]*)"""
    rb"""(["']?)([\w./+-]+\.(?:ya?ml|jsonc?|toml|env))\1(?![\w./+-])""",
    re.IGNORECASE,
)
INSTALLED_FROM = re.compile(
    r".*requirements.*\.(?:txt|in)|reqs\.txt|environment.*\.ya?ml|(?:poetry|uv|pdm|pipfile|requirements)\.lock"
)
"""Manifests that count where they lie: many an ignore rule (``*.txt``) is meant for data, and git may track them."""
CONFIG_KINDS = frozenset({FileKind.YAML, FileKind.JSON, FileKind.TOML, FileKind.ENV})


def named_files(root: str, paths: set[str], asked: list[str]) -> Iterator[str]:
    """Paths, relative to ``root``, that the shell scripts among ``paths`` read by name and that are not in it yet.

    Only regular files inside the root count, by a literal name, relative to the root or to the script. ``asked`` gets
    the absolute paths of all files that were looked for.
    """
    for script in sorted(path for path in paths if kind_of(path) is FileKind.SHELL):
        for name in _named_in(os.path.join(root, *script.split("/"))):
            for folder in ("", script.rpartition("/")[0]):
                found = os.path.normpath(os.path.join(folder, name)).replace(os.sep, "/")
                if found not in paths and kind_of(found) is not None:
                    asked.append(os.path.join(root, *found.split("/")))
                    if is_plain_file(root, found):
                        yield found


def _named_in(script: str) -> list[str]:
    try:
        data = read_regular_file(script, MAX_SCRIPT_BYTES)
    except (FileRefused, OSError, ValueError):
        return []
    lines = b"\n".join(line for line in data.splitlines() if not line.lstrip().startswith(b"#"))
    found = [*_SOURCE.finditer(lines), *_CONFIG.finditer(lines)]
    return list(dict.fromkeys(match[2].decode("ascii") for match in found if match[2].isascii()))


def unasked_files(root: str, left_out: Mapping[str, str], unasked: Iterable[str], asked: list[str]) -> Iterator[str]:
    """The files among those left out, and in the folders left out, that end like one of ``unasked``, and manifests."""
    ends = [end for end in dict.fromkeys(unasked) if "*" not in end and "/" in end]
    for path in sorted(left_out):
        for end in ends if path.endswith("/") else ():
            found = _below(path, end)
            if found is not None:
                asked.append(os.path.join(root, *found.split("/")))
                if is_plain_file(root, found):
                    yield found
        name = path.rpartition("/")[2].lower()
        if name and (any(f"/{path}".endswith(f"/{end}") for end in ends) or INSTALLED_FROM.fullmatch(name)):
            yield path


def _below(folder: str, end: str) -> str | None:
    """``config/`` and ``config/config.json`` together: where the file is, when its own folders are those left out."""
    parts = end.split("/")
    for count in range(len(parts) - 1, 0, -1):
        if f"/{folder}".endswith("/" + "/".join(parts[:count]) + "/"):
            return folder + "/".join(parts[count:])
    return None


def is_plain_file(root: str, path: str) -> bool:
    """A regular file reached without any symbolic link and without leaving the root."""
    if path.startswith(("../", "/")) or path == "..":
        return False
    full = os.path.join(root, *path.split("/"))
    try:
        regular = stat.S_ISREG(os.lstat(full).st_mode)
        return regular and os.path.realpath(full) == os.path.join(os.path.realpath(root), *path.split("/"))
    except (OSError, ValueError):
        return False
