"""The settings of every file of a project: those of the nearest folder that has some, as a whole."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..model import UsageError
from .settings import FILES, ProjectSettings, settings_in

MAX_NESTED = 1_000
"""How many folders below the root may have settings of their own."""


@dataclass(frozen=True, slots=True)
class SettingsTree:
    """The settings of a project: those of its root, and those of folders below that have their own."""

    root: ProjectSettings
    nested: Mapping[str, ProjectSettings] = field(default_factory=dict)
    """Folder, relative to the root, and its settings."""

    def of(self, path: str) -> ProjectSettings:
        """The settings that count for a file: those of the nearest folder that has some."""
        folder = path
        while self.nested and folder:
            folder = folder.rpartition("/")[0]
            if folder in self.nested:
                return self.nested[folder]
        return self.root

    def all(self) -> Iterable[ProjectSettings]:
        """Every one of them, the root's first."""
        return (self.root, *self.nested.values())


def settings_below(root: Path, at_root: ProjectSettings, paths: Iterable[str]) -> SettingsTree:
    """The settings of a project whose files are ``paths``; raises UsageError as `settings_of`, and for too many."""
    nested: dict[str, ProjectSettings] = {}
    for folder in sorted(_folders(paths)):
        found = settings_in(root / folder) if _has_some(root / folder) else None
        if found is not None:
            nested[folder] = found
        if len(nested) > MAX_NESTED:
            raise UsageError(f"more than {MAX_NESTED:,} folders of {str(root)!r} have settings of their own")
    return SettingsTree(at_root, nested)


def _folders(paths: Iterable[str]) -> set[str]:
    """All folders on the way to some files, the root aside."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return found


def _has_some(folder: Path) -> bool:
    return any(os.path.lexists(folder / name) for name in FILES)
