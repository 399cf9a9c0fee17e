"""What is measured: subjects (a tree of files, or just a start), and the runs that are compared on each."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .measure import cost_of

HERE = Path(__file__).resolve().parent
SMALL = HERE.parent / "fixtures" / "projects" / "onetrainer_like" / "input"
SCRIPTS = Path(sysconfig.get_path("scripts"))
PRECFIX = str(SCRIPTS / "precfix")
RUFF = (str(SCRIPTS / "ruff"), "check", "--isolated", "--no-cache", "--quiet", "--select", "UP,NPY")
NO_CACHE, JOBS, PROJECT = "--no-cache", "--jobs", "--project"
COPIES = (1, 2, 4)
CHANGED = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One command that is measured; ``prepare`` is called before it, unmeasured."""

    name: str
    command: tuple[str, ...]
    stdin: bytes = b""
    prepare: Callable[[], None] = lambda: None
    needs: str = ""
    """The option without which this cannot be measured."""


@dataclass(frozen=True, slots=True)
class Subject:
    """Runs that are compared with each other: ratios are to the one called ``base``."""

    name: str
    runs: tuple[Run, ...]
    base: str
    size: str = ""


def options_known() -> frozenset[str]:
    """The words of the help of ``precfix check``: a precfix from before an option cannot be measured with it."""
    asked = subprocess.run([PRECFIX, "check", "--help"], capture_output=True, text=True, check=True)
    return frozenset(asked.stdout.replace(",", " ").split())


def subjects(folder: Path, work: Path, copied: str, known: frozenset[str]) -> Iterator[Subject]:
    """Everything that can be measured on the trees in ``folder``, always in this order; copies are made in ``work``."""
    without = (NO_CACHE,) if NO_CACHE in known else ()
    yield _start(without)
    small = work / "small" / "project"
    shutil.copytree(SMALL, small)
    yield _tree("small project", small, known)
    trees = work / "trees"
    shutil.copytree(folder, trees, symlinks=True)
    names = sorted(item.name for item in trees.iterdir() if item.is_dir())
    for name in names:
        yield _tree(name, trees / name, known)
    if len(names) > 1:
        yield _tree("all trees", trees, known)
    chosen = copied or min(names, key=lambda name: (len(_python_files(trees / name)), name))
    for number in COPIES:
        place = work / "copies" / str(number)
        for index in range(number):
            shutil.copytree(folder / chosen, place / f"copy{index}", symlinks=True)
        yield _tree(f"{number}x {chosen}", place, known)


def _start(without: tuple[str, ...]) -> Subject:
    runs = (
        Run("python -c pass", (sys.executable, "-c", "pass")),
        Run("precfix --version", (PRECFIX, "--version")),
        Run("one file of 100 lines", (PRECFIX, "check", "-q", *without, str(HERE / "hundred_lines.py"))),
    )
    return Subject("start", runs, base="python -c pass")


def _tree(name: str, root: Path, known: frozenset[str]) -> Subject:
    files = _python_files(root)
    check, without = (PRECFIX, "check", "-q", "--isolated"), (NO_CACHE,) if NO_CACHE in known else ()
    kept = Kept((*check, str(root)), _spread(files))
    middle = _spread(files)[len(_spread(files)) // 2]
    stdin = (*check, "-", "--stdin-filename", str(middle))
    everything = (sys.executable, str(HERE / "everything.py"))
    runs = (
        Run("read", (*everything, "read", str(root))),
        Run("ast.parse", (*everything, "parse", str(root))),
        Run("ruff", (*RUFF, str(root))),
        Run("cold", (*check, *without, str(root))),
        Run("cold, 1 job", (*check, *without, JOBS, "1", str(root)), needs=JOBS),
        Run("unchanged", kept.command, prepare=kept.fill, needs=NO_CACHE),
        Run(f"{CHANGED} files changed", kept.command, prepare=kept.change, needs=NO_CACHE),
        Run("1 file on stdin", stdin, middle.read_bytes()),
        Run("1 file on stdin, --project", (*stdin, PROJECT, str(root)), middle.read_bytes(), needs=PROJECT),
    )
    size = sum(path.stat().st_size for path in files) / 1e6
    return Subject(name, runs, base="ruff", size=f"{len(files):,} Python files, {size:.1f} MB")


class Kept:
    """A tree whose last answer is kept on the disk."""

    def __init__(self, command: tuple[str, ...], changing: Sequence[Path]) -> None:
        self.command = command
        self._changing = changing
        self._changes = 0

    def fill(self) -> None:
        cost_of(self.command)

    def change(self) -> None:
        """Bring the answer up to date, then give each of a few files a function that it never had."""
        self.fill()
        self._changes += 1
        for path in self._changing:
            with path.open("a", encoding="utf-8") as file:
                file.write(f"\n\ndef _changed_{self._changes}(value):\n    return value.float()\n")


def _python_files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*.py") if path.is_file() and not path.is_symlink())


def _spread(files: Sequence[Path]) -> list[Path]:
    """A few files, far apart, of those that use torch."""
    using = [path for path in files if b"import torch" in path.read_bytes()] or list(files)
    number = min(CHANGED, len(using))
    return [using[(2 * index + 1) * len(using) // (2 * number)] for index in range(number)]
