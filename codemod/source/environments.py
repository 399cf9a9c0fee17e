"""Folders that hold installed packages rather than the project: what of them is left out.

The marker alone proves nothing: a `pyvenv.cfg` that was committed by mistake would hide all that lies beside it. An
environment has its own interpreter; and a project may live in the folder of its environment (`python -m venv .`), so
only what the environment made is left out.
"""

from __future__ import annotations

import os
from collections.abc import Collection

STARTERS = {
    "bin": ("activate", "python", "python3"),
    "Scripts": ("activate", "activate.bat", "python.exe"),
}
"""Folder -> one of these in it makes it the programs of an environment."""
MADE = frozenset({"bin", "Scripts", "include", "Include", "share", "etc", "pyvenv.cfg"})
LIBRARIES = frozenset({"lib", "lib64", "Lib"})


def environment_parts(full: str, names: Collection[str]) -> frozenset[str]:
    """The names in the folder ``full``, which holds ``names``, that an environment made: installed code, programs."""
    if not _is_environment(full, names):
        return frozenset()
    if "conda-meta" in names:
        return frozenset(names)
    libraries = {name for name in LIBRARIES.intersection(names) if _holds_packages(os.path.join(full, name))}
    return frozenset(MADE.intersection(names) | libraries)


def _is_environment(full: str, names: Collection[str]) -> bool:
    if "conda-meta" in names:
        return os.path.lexists(os.path.join(full, "conda-meta", "history"))
    if "pyvenv.cfg" not in names and not ({"bin", "lib"} <= {*names} or {"Scripts", "Lib"} <= {*names}):
        return False
    programs = [os.path.join(full, folder, name) for folder in STARTERS if folder in names for name in STARTERS[folder]]
    return any(os.path.lexists(path) for path in programs)


def _holds_packages(library: str) -> bool:
    """Whether it is Python's own folder, and not one that the project calls so."""
    try:
        return any(name == "site-packages" or name.startswith(("python", "pypy")) for name in os.listdir(library))
    except OSError:
        return False
