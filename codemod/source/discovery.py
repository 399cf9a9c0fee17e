"""Which files of a directory tree are read: kinds precfix knows, not ignored by git, nothing outside the root."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from ..model import UsageError
from .documents import kind_of
from .environments import environment_parts
from .ignoring import IgnoreRules, Pattern, compile_patterns, outer_rules, read_rules
from .named_files import CONFIG_KINDS, named_files, unasked_files
from .tracked import told, tracked_files

_EXCLUDED = """
.git .hg .svn .venv venv .env site-packages node_modules build dist .eggs __pycache__ .ipynb_checkpoints .tox .nox
.mypy_cache .ruff_cache .pytest_cache .precfix
"""
EXCLUDED_DIRECTORIES = frozenset(_EXCLUDED.split())
"""Never entered, unless named on the command line."""
BUILT = frozenset({"build", "dist"})
"""Those of them that are also what some call a folder of their code."""
UNTOLD_DIRECTORIES = EXCLUDED_DIRECTORIES - BUILT - {".venv", "venv", ".env", "site-packages", "node_modules"}
"""Those of them that nobody keeps code in: nothing is said of them."""
BY_NAME = "of installed or built code, by name"
IGNORED = "named by .gitignore"
EXCLUDED = "excluded by the settings or --exclude"
ENVIRONMENT = "of a Python environment"
"""Why something that might have been read is left out."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is read at most."""

    max_file_bytes: int = 5_000_000
    max_notebook_bytes: int = 50_000_000
    max_files: int = 200_000


@dataclass(slots=True)
class Discovery:
    """What was found below ``root``: relative paths with forward slashes."""

    root: Path
    paths: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    """Symlinked files: path -> where they really are, absolute and inside the root."""
    skipped: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    """Files of a kind that is read, and folders (a slash at the end), that were passed over on purpose, and why."""
    folders: list[str] = field(default_factory=list)
    """Absolute paths of the directories whose entries were looked through."""
    asked: list[str] = field(default_factory=list)
    """Absolute paths of files that something of the project names, whether or not they exist."""

    def skip(self, path: str, reason: str) -> None:
        """Record, once per path, why it is not read."""
        self.skipped.setdefault(path, reason)


LeaveOut: TypeAlias = Callable[[str, bool], bool]
"""Whether the file (or, when True, the folder) at a path is left out by the settings."""


def root_of(paths: Sequence[Path]) -> Path:
    """The root of the project at ``paths``: the directory given, or what several paths have in common.

    Raises `UsageError` for a path that does not exist or cannot be read.
    """
    if not paths:
        raise UsageError("no path given")
    return Path(_root_of([_existing(path) for path in paths]))


def discover(
    paths: Sequence[Path],
    excludes: Iterable[str],
    limits: Limits,
    leave_out: LeaveOut | None = None,
    unasked: Iterable[str] = (),
) -> Discovery:
    """Find the files of a project; raises `UsageError` for a path that does not exist or cannot be read.

    ``unasked``: names (or ends of paths) of files that programs read by themselves, also where git ignores them.
    """
    root = os.fspath(root_of(paths))
    starts = [_existing(path) for path in paths]
    found = Discovery(Path(root))
    walker = _Walker(found, tuple(compile_patterns(excludes, found.skip)), limits, starts, leave_out)
    for start in starts:
        if os.path.isdir(start):
            walker.walk(start)
        else:
            walker.add_named(start)
    named = [*tracked_files(root, found.left_out, IGNORED, found.asked)]
    named += [*unasked_files(root, found.left_out, unasked, found.asked), *named_files(root, found.paths, found.asked)]
    found.paths.update(path for path in named if walker.may_add(path))
    _drop_links_to_found_files(found)
    found.left_out = told(found.left_out, found.paths, found.paths.intersection(named))
    return found


def _existing(path: Path) -> str:
    """The absolute path, symlinked directories resolved (the user named them); raises `UsageError`."""
    text = os.fspath(path)
    try:
        real = os.path.realpath(text, strict=True)
        mode = os.stat(real).st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a usable path"
        raise UsageError(f"{text!r}: {reason.lower()}{_similar(text)}") from None
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        raise UsageError(f"{text!r}: neither a file nor a directory")
    if not os.access(real, os.R_OK | (os.X_OK if stat.S_ISDIR(mode) else 0)):
        raise UsageError(f"{text!r}: permission denied")
    return real


def _similar(text: str) -> str:
    """``; did you mean 'train.py'?`` when something with such a name lies in the same folder."""
    from difflib import get_close_matches

    folder, name = os.path.split(text.rstrip("/"))
    try:
        close = get_close_matches(name, sorted(os.listdir(folder or "."))[:10_000], 1, 0.75) if name else []
    except (OSError, ValueError):
        return ""
    return f"; did you mean {os.path.join(folder, close[0])!r}?" if close else ""


def _root_of(starts: Sequence[str]) -> str:
    folders = [start if os.path.isdir(start) else os.path.dirname(start) for start in starts]
    try:
        return os.path.commonpath(folders)
    except ValueError:
        raise UsageError("the given paths have no directory in common") from None


class _Walker:
    def __init__(
        self,
        found: Discovery,
        excludes: tuple[Pattern, ...],
        limits: Limits,
        starts: Sequence[str],
        leave_out: LeaveOut | None = None,
    ) -> None:
        self.found = found
        self.root = os.fspath(found.root)
        self.patterns = IgnoreRules("", excludes)
        self.leave_out = leave_out
        self.limits = limits
        self.starts = starts
        self._above = 0
        """How many of the ignore rules stand above a folder that the user named: they do not hide its settings."""

    def excluded(self, path: str, is_directory: bool) -> bool:
        """Whether the command line or the settings leave a path out."""
        if self.patterns.verdict(path, is_directory):
            return True
        return self.leave_out is not None and self.leave_out(path, is_directory)

    def is_given(self, target: str) -> bool:
        """Whether ``target`` lies below a given path; the root may hold more, being what several have in common."""
        return any(is_inside(target, start) for start in self.starts)

    def may_add(self, path: str) -> bool:
        """Whether a file that the walk passed over may be read after all, being named by another file."""
        parts = path.split("/")
        parents = ("/".join(parts[: count + 1]) for count in range(len(parts) - 1))
        excluded = any(self.excluded(parent, True) for parent in parents) or self.excluded(path, False)
        return not excluded and not {".git", ".precfix"} & set(parts) and self.is_given(os.path.join(self.root, *parts))

    def relative(self, full: str) -> str:
        path = os.path.relpath(full, self.root).replace(os.sep, "/")
        return "" if path == "." else path

    def add_named(self, full: str) -> None:
        """A file named by the user: neither ignore rules nor excludes apply."""
        path = self.relative(full)
        if kind_of(path) is None:
            self.found.skip(path, "not a kind of file that precfix reads")
        else:
            self.found.paths.add(path)

    def walk(self, start: str) -> None:
        """Read a directory tree, depth first, never following a symlinked directory."""
        first = self.relative(start)
        top, outer = outer_rules(start, self.found.skip)
        prefix = os.path.relpath(start, top).replace(os.sep, "/")
        place = "" if prefix == "." else prefix + "/"
        if place and any(_ignored(outer, parent, True) for parent in _parents(place)):
            outer = ()  # the user asked for an ignored directory
        self._above = len(outer) if place else 0
        pending = [(start, first + "/" if first else "", place, outer)]
        while pending:
            full, path, place, rules = pending.pop()
            entries = self._entries(full, path)
            names = {entry.name for entry in entries}
            made = environment_parts(full, names)
            if made:
                entries = self._without(made, entries, path)
            if ".gitignore" in names:
                rules = (*rules, *read_rules(os.path.join(full, ".gitignore"), place, path, self.found.skip))
            for entry in entries:
                if self._is_wanted_directory(entry, path, place, rules):
                    name = entry.name + "/"
                    pending.append((os.path.join(full, entry.name), path + name, place + name, rules))
                elif not self._add_file(entry, path, place, rules):
                    return

    def _entries(self, full: str, path: str) -> list[os.DirEntry[str]]:
        self.found.folders.append(full)
        try:
            with os.scandir(full) as entries:
                return sorted(entries, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            self.found.skip(path or ".", f"directory cannot be read: {(error.strerror or 'error').lower()}")
            return []

    def _without(self, made: frozenset[str], entries: list[os.DirEntry[str]], path: str) -> list[os.DirEntry[str]]:
        """The entries of a folder less those that an environment made."""
        for entry in entries:
            if entry.name in made and _is_directory(entry):
                self.found.folders.append(entry.path)
                self.found.left_out[f"{path}{entry.name}/"] = ENVIRONMENT
        return [entry for entry in entries if entry.name not in made]

    def _is_wanted_directory(
        self, entry: os.DirEntry[str], path: str, place: str, rules: tuple[IgnoreRules, ...]
    ) -> bool:
        if not _is_directory(entry):
            return False
        name = entry.name
        if name in UNTOLD_DIRECTORIES or name.endswith(".egg-info"):
            return False
        is_made = name in EXCLUDED_DIRECTORIES and not (name in BUILT and self._holds_code(entry, path))
        reason = BY_NAME if is_made else self._reason(path + name, place + name, rules, True)
        if reason is not None:
            self.found.left_out[f"{path}{name}/"] = reason
        return reason is None

    def _holds_code(self, entry: os.DirEntry[str], path: str) -> bool:
        """Whether a folder is code: Python files in it below other code, a package at the top, where tools build."""
        wanted = ".py" if path else "__init__.py"
        self.found.folders.append(entry.path)
        try:
            with os.scandir(entry.path) as inside:
                return any(item.name.endswith(wanted) and _is_file(item) for item in inside)
        except OSError:
            return False

    def _reason(self, path: str, place: str, rules: tuple[IgnoreRules, ...], is_directory: bool) -> str | None:
        """Why something is left out; None where it is not."""
        if self.excluded(path, is_directory):
            return EXCLUDED
        if not is_directory and kind_of(path) in CONFIG_KINDS:
            rules = rules[self._above :]
        return IGNORED if _ignored(rules, place, is_directory) else None

    def _add_file(self, entry: os.DirEntry[str], path: str, place: str, rules: tuple[IgnoreRules, ...]) -> bool:
        """Take a file if it is wanted; False when there are too many."""
        name = path + entry.name
        if kind_of(entry.name) is None or _is_directory(entry):
            return True
        reason = self._reason(name, place + entry.name, rules, False)
        if reason is not None:
            self.found.left_out[name] = reason
            return True
        if entry.is_symlink():
            self._add_link(entry, name)
        elif _is_file(entry):
            self.found.paths.add(name)
        if len(self.found.paths) > self.limits.max_files:
            self.found.skip(".", f"more than {self.limits.max_files} files: the rest is not read")
            return False
        return True

    def _add_link(self, entry: os.DirEntry[str], name: str) -> None:
        try:
            target = os.path.realpath(entry.path, strict=True)
            mode = os.stat(target, follow_symlinks=False).st_mode
        except (OSError, ValueError):
            self.found.skip(name, "symbolic link to a missing file")
            return
        if stat.S_ISDIR(mode):
            return
        if not self.is_given(target):
            self.found.skip(name, "symbolic link out of the project")
        elif stat.S_ISREG(mode):
            self.found.paths.add(name)
            self.found.links[name] = target


def is_inside(target: str, root: str) -> bool:
    """Whether the absolute, resolved path ``target`` lies below the directory ``root``."""
    try:
        return os.path.commonpath((target, root)) == root
    except ValueError:
        return False


def _ignored(rules: tuple[IgnoreRules, ...], place: str, is_directory: bool) -> bool:
    """What the innermost rule that has an opinion says."""
    for level in reversed(rules):
        verdict = level.verdict(place, is_directory)
        if verdict is not None:
            return verdict
    return False


def _parents(place: str) -> Iterator[str]:
    parts = place.rstrip("/").split("/")
    return ("/".join(parts[: count + 1]) for count in range(len(parts)))


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _drop_links_to_found_files(found: Discovery) -> None:
    """A file that is read under its own name need not be read (and edited) through a link as well."""
    root = os.fspath(found.root)
    for name, target in list(found.links.items()):
        if os.path.relpath(target, root).replace(os.sep, "/") in found.paths:
            found.paths.discard(name)
            del found.links[name]
