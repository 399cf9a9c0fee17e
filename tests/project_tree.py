"""Small projects written to disk for tests."""

from __future__ import annotations

import textwrap
from pathlib import Path

from precfix.codemod.source.project import Project


def write_tree(root: Path, files: dict[str, str]) -> Path:
    """Write ``files`` (path -> text, dedented) below ``root`` and return it."""
    for path, text in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
    return root


def open_tree(root: Path, files: dict[str, str]) -> Project:
    """A project made of ``files``."""
    return Project.open([write_tree(root, files)])
