"""A copy of a project outside of its tree, to try something in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from ..model import UsageError
from ..outcome import FileChange

LEFT_OUT = frozenset({".git", ".hg", ".svn", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".precfix"})
ENVIRONMENT = "pyvenv.cfg"
"""The file that marks a virtual environment, which is not copied."""
MAX_FILES = 50_000
MAX_BYTES = 4 << 30


@contextmanager
def copy_of(root: Path) -> Iterator[Path]:
    """The project in a folder of its own, which is gone afterwards; raises UsageError for what is too large."""
    top = Path(mkdtemp(prefix="precfix-prove-")).resolve()
    copy = top / root.name if root.name else top / "project"
    try:
        _copy(root, copy)
        yield copy
    finally:
        shutil.rmtree(top, ignore_errors=True)


def write_changes(copy: Path, changes: tuple[FileChange, ...]) -> None:
    """Give the files of a copy their new bytes."""
    for change in changes:
        path = copy / change.path
        if path.is_symlink() or not path.is_file():
            raise UsageError(f"{change.path!r} is not a plain file of the project: it cannot be tried in a copy")
        path.write_bytes(change.after)


def _copy(root: Path, copy: Path) -> None:
    files = size = 0
    for folder, names, here in os.walk(root):
        names[:] = sorted(name for name in names if _is_copied(Path(folder, name)))
        target = copy / Path(folder).relative_to(root)
        target.mkdir(parents=True, exist_ok=True)
        for name in [*here, *(name for name in names if Path(folder, name).is_symlink())]:
            source = Path(folder, name)
            files, size = files + 1, size + _size(source)
            if files > MAX_FILES or size > MAX_BYTES:
                raise UsageError(
                    f"{str(root)!r} is too large to be copied for --prove: the limit is {MAX_FILES:,} files and "
                    f"{MAX_BYTES >> 30} GiB; name the folder of the program alone"
                )
            _copy_file(root, source, target / name)
        names[:] = [name for name in names if not Path(folder, name).is_symlink()]


def _is_copied(folder: Path) -> bool:
    return folder.name not in LEFT_OUT and not (folder / ENVIRONMENT).is_file()


def _size(path: Path) -> int:
    return 0 if path.is_symlink() else path.lstat().st_size


def _copy_file(root: Path, source: Path, target: Path) -> None:
    """Links inside the project stay links, others lead to where they led; devices and pipes are left out."""
    if source.is_symlink():
        real = Path(os.path.realpath(source))
        inside = not os.path.isabs(os.readlink(source)) and real.is_relative_to(root)
        target.symlink_to(os.readlink(source) if inside else real)
    elif source.is_file():
        shutil.copy2(source, target)
