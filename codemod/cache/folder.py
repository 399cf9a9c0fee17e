"""Where kept files lie: a folder that belongs to the user and that nobody else can write to."""

from __future__ import annotations

import os
import stat
import sys

PLACE = "PRECFIX_CACHE_DIR"
"""The environment variable that names another folder. A project cannot name one: its author could have filled it."""
OFF = "PRECFIX_NO_CACHE"
"""The environment variable that switches everything off; ``--no-cache`` sets it, for child processes as well."""
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_README = b"Signature: 8a477f597d28d172789f06886806bc55\n# Kept by precfix between runs; `precfix clean` empties it.\n"


def wanted_folder() -> str | None:
    """The folder for kept files, whether or not it exists; None where there is no place for one."""
    named = os.environ.get(PLACE)
    if named:
        return os.path.abspath(named)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
        return os.path.join(base, "precfix", "cache") if os.path.isabs(base) else None
    if sys.platform == "darwin":
        base = os.path.expanduser("~/Library/Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        base = base if os.path.isabs(base) else os.path.expanduser("~/.cache")
    return os.path.join(base, "precfix") if os.path.isabs(base) else None


def folder_to_read() -> str | None:
    """The folder for kept files if it is there and can be trusted."""
    folder = None if os.environ.get(OFF) else wanted_folder()
    return folder if folder is not None and is_own(folder) else None


def folder_to_write() -> str | None:
    """The folder for kept files, made where it is missing; None where that cannot be, or it cannot be trusted."""
    folder = None if os.environ.get(OFF) else wanted_folder()
    if folder is None:
        return None
    try:
        if not os.path.lexists(folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            with open(os.path.join(folder, "CACHEDIR.TAG"), "xb") as file:  # backups pass over such folders
                file.write(_README)
    except (OSError, ValueError):
        pass  # another run was faster, or there is no right to
    return folder if is_own(folder) else None


def is_own(path: str) -> bool:
    """Whether a folder is the user's, is no link, and nobody else can write to it."""
    try:
        found = os.lstat(path)
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) and belongs_to_user(found)


def belongs_to_user(found: os.stat_result) -> bool:
    """Whether a file or folder is the user's and nobody else can write to it. Windows' rights are not looked at."""
    return os.name == "nt" or (found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE)
