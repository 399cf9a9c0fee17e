"""Which installed distributions declare an entry point of a group: read from their metadata, nothing is imported.

`importlib.metadata` is not asked: importing it alone takes longer than this search, and it would read metadata that
lies in the scanned project.
"""

from __future__ import annotations

import os
import re
import site
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ..source.reading import FileRefused, read_regular_file

MAX_BYTES = 1_000_000
"""Larger metadata files are not read."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution, told by the name of its metadata folder."""

    name: str
    """Normalized: lower case, words joined by dashes."""
    version: str
    """Empty where the folder's name does not say it."""
    metadata: str
    """The ``.dist-info`` or ``.egg-info`` folder."""


@dataclass(frozen=True, slots=True)
class Declaring:
    """The distributions that declare a group, by name."""

    installed: tuple[Distribution, ...]
    refused: tuple[Distribution, ...]
    """They lie in a guarded folder, and so does their metadata: nobody has installed them."""


def declaring(group: str, guarded: Iterable[str]) -> Declaring:
    """The distributions on ``sys.path`` that declare ``group``; of several with one name the first counts.

    What lies below a ``guarded`` folder is refused, unless it is in the folder into which this Python installs (the
    environment may well be a folder of the project).
    """
    guards, trusted = tuple(guarded), site_folders()
    first: dict[str, Distribution] = {}
    refused: list[Distribution] = []
    for entry in real_paths(sys.path):
        if entry in trusted or not is_below(entry, guards):
            for found in _distributions_in(entry):
                first.setdefault(found.name, found)
        else:
            refused += [found for found in _distributions_in(entry) if _declares(found, group)]
    installed = {found.name: found for found in first.values() if _declares(found, group)}
    left = {found.name: found for found in refused if found.name not in installed}
    return Declaring(*(tuple(found[name] for name in sorted(found)) for found in (installed, left)))


def site_folders() -> frozenset[str]:
    """Where this Python installs distributions, links resolved."""
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return frozenset(real_paths([*site.getsitepackages(), *user]))


def real_paths(paths: Iterable[str]) -> list[str]:
    """Absolute paths without links, each once; "" is the current folder. What can be no path is left out."""
    found: dict[str, None] = {}
    for path in paths:
        try:
            found[os.path.realpath(path)] = None
        except (OSError, ValueError, TypeError):  # the current folder is gone, a NUL, no text
            continue
    return list(found)


def is_below(path: str, folders: Iterable[str]) -> bool:
    """Whether a path without links is one of the folders or lies in one."""
    return any(path == folder or path.startswith(os.path.join(folder, "")) for folder in folders)


def editable_folder(found: Distribution) -> str | None:
    """The folder that an editable install points to; None for an ordinary install."""
    import json
    from urllib.parse import unquote, urlsplit

    try:
        record = json.loads(_read(found, "direct_url.json"))
        url = urlsplit(record["url"])
        if url.scheme == "file" and record["dir_info"]["editable"] is True:
            path = unquote(url.path)
            return os.path.realpath(path.lstrip("/") if os.name == "nt" else path)  # /C:/rules
    except (OSError, FileRefused, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        pass  # no such file, or not what the standard says
    return None


def _distributions_in(folder: str) -> Iterator[Distribution]:
    try:
        names = sorted(os.listdir(folder), reverse=True)
    except (OSError, ValueError):  # no folder: an archive, a hook, a name that is none
        return
    for name in names:
        stem, suffix = os.path.splitext(name)
        if suffix in (".dist-info", ".egg-info") and not stem.startswith("~"):  # what pip could not delete
            project, _, version = stem.partition("-")
            shown = re.sub(r"[-_.]+", "-", project).lower()
            yield Distribution(shown, version.partition("-")[0], os.path.join(folder, name))


def _declares(found: Distribution, group: str) -> bool:
    try:
        return f"[{group}]".encode() in _read(found, "entry_points.txt")
    except (OSError, FileRefused):
        return False


def _read(found: Distribution, name: str) -> bytes:
    """Installers may link files into an environment; what the link leads to must still be a regular file."""
    return read_regular_file(os.path.realpath(os.path.join(found.metadata, name)), MAX_BYTES)
