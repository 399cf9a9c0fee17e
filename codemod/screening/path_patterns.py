"""Gitignore patterns of settings files, asked about the files of a project."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from ..settings.settings import PathPattern
from ..source.ignoring import IgnoreRules, compile_patterns


class PathPatterns:
    """Patterns, each relative to its own folder; the last one of a folder that has an opinion decides, as for git."""

    def __init__(self, patterns: Iterable[PathPattern], root: Path) -> None:
        """``root`` is the folder that the paths asked about are relative to."""
        self._root = _with_slash(os.path.realpath(root))
        by_folder: dict[str, list[str]] = {}
        for each in patterns:
            by_folder.setdefault(_with_slash(os.path.realpath(each.folder)), []).append(each.pattern)
        self._rules = [
            (folder, IgnoreRules("", tuple(compile_patterns(lines, lambda path, reason: None))))
            for folder, lines in by_folder.items()
        ]

    def match(self, path: str, is_directory: bool = False) -> bool:
        """Whether the file (or folder) at ``path``, or a folder above it, is meant."""
        whole = self._root + path
        return any(
            _matches(rules, whole[len(folder) :], is_directory)
            for folder, rules in self._rules
            if whole.startswith(folder)
        )


def _with_slash(folder: str) -> str:
    return folder.replace(os.sep, "/").rstrip("/") + "/"


def _matches(rules: IgnoreRules, path: str, is_directory: bool) -> bool:
    parts = path.split("/")
    folders = ("/".join(parts[:count]) for count in range(1, len(parts)))
    return any(rules.verdict(folder, True) for folder in folders) or bool(rules.verdict(path, is_directory))
