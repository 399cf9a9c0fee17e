"""Which files have changes that git has not committed.

Only ``git rev-parse``, ``ls-files -s`` and ``ls-tree`` are asked, and the bytes are hashed here: ``git status`` and
``git diff`` would run the clean filters and the file system monitor that a hostile ``.git/config`` names. Those are
switched off besides, and so is every transport, since a partial clone fetches the objects it lacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..model import UsageError
from .replacing import read_regular

TIMEOUT = 60.0
"""Seconds that one git command may take."""
_CHUNK = 200
_OPTIONS = (
    *("--no-pager", "--literal-pathspecs", "-c", "core.fsmonitor=false", "-c", "core.quotePath=off"),
    *("-c", f"core.hooksPath={os.devnull}", "-c", "safe.directory=*"),
)


def dirty_files(root: Path, paths: Sequence[str]) -> set[str]:
    """Those of ``paths`` (real, relative to ``root``) whose bytes differ from the last commit or from the index.

    A file that git does not know (untracked, ignored, in no repository) is never dirty: git could not give it back
    anyway, and the journal keeps its bytes. Line endings do not count (``core.autocrlf``). Behind a clean filter
    (git-lfs, nbstripout) the committed bytes differ from those on the disk, so such a file always counts as dirty.
    Without git the answer is empty. Raises UsageError when git fails, OSError when a file cannot be read.
    """
    git = git_executable(root)
    if git is None:
        return set()
    by_repository: dict[Path, list[str]] = {}
    for path in paths:
        top = repository_of(root / path)
        if top is not None:
            by_repository.setdefault(top, []).append(path)
    return {path for top, inside in by_repository.items() for path in _dirty(git, root, top, inside)}


def git_executable(root: Path) -> str | None:
    """The full path of git; one that the project itself brings along does not count."""
    import shutil

    found = shutil.which("git")
    if found is None or not os.path.isabs(found) or Path(found).resolve().is_relative_to(root.resolve()):
        return None
    return found


def repository_of(path: Path) -> Path | None:
    return next((folder for folder in path.parents if os.path.lexists(folder / ".git")), None)


def _dirty(git: str, root: Path, top: Path, paths: Sequence[str]) -> Iterator[str]:
    names = {os.fsencode((root / path).relative_to(top).as_posix()): path for path in paths}
    known = sorted(names)
    staged: dict[bytes, bytes] = {}
    committed: dict[bytes, bytes] = {}
    head = run_git(git, top, ["rev-parse", "-q", "--verify", "HEAD^{commit}"], accept=(0, 1)).strip()
    for at in range(0, len(known), _CHUNK):
        chunk = known[at : at + _CHUNK]
        staged |= _objects(run_git(git, top, ["ls-files", "-s", "-z", "--", *chunk]), of_tree=False)
        if head:
            committed |= _objects(run_git(git, top, ["ls-tree", "-z", head, "--", *chunk]), of_tree=True)
    for name, path in names.items():
        if name not in staged and name not in committed:
            continue
        wanted = staged.get(name)
        if wanted is None or wanted != committed.get(name) or not _is_blob(root / path, wanted):
            yield path


def _objects(listing: bytes, *, of_tree: bool) -> dict[bytes, bytes]:
    """Name to object id, from ``mode type id TAB name`` (ls-tree) or ``mode id stage TAB name`` (ls-files -s)."""
    found: dict[bytes, bytes] = {}
    for record in listing.split(b"\0"):
        head, tab, name = record.partition(b"\t")
        words = head.split()
        if tab and len(words) >= 3:
            merging = not of_tree and words[2] != b"0"
            found[name] = b"" if merging else words[2 if of_tree else 1]
    return found


def _is_blob(path: Path, wanted: bytes) -> bool:
    data, _ = read_regular(path)
    return wanted in (_blob_id(data, wanted), _blob_id(data.replace(b"\r\n", b"\n"), wanted))


def _blob_id(data: bytes, like: bytes) -> bytes:
    """The id git gives to a file with ``data``; SHA-256 when ``like`` is that long."""
    import hashlib

    whole = b"blob %d\0" % len(data) + data
    hashed = hashlib.sha256(whole) if len(like) == 64 else hashlib.sha1(whole, usedforsecurity=False)
    return hashed.hexdigest().encode("ascii")


def run_git(git: str, top: Path, arguments: Sequence[str | bytes], accept: Sequence[int] = (0,)) -> bytes:
    import subprocess

    command = [git, *_OPTIONS, "-C", str(top), *arguments]
    try:
        done = subprocess.run(
            command, env=_environment(top), stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _unknown(top, type(error).__name__) from None
    if done.returncode not in accept:
        raise _unknown(top, ascii(done.stderr.decode("utf-8", "replace").strip()[:200]))
    return done.stdout


def _unknown(top: Path, why: str) -> UsageError:
    return UsageError(f"git cannot tell which files of {str(top)!r} are committed ({why}); see --allow-dirty")


def _environment(top: Path) -> Mapping[str, str]:
    """The environment less git's own variables (a hook sets some), and without transports, locks and prompts."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name == "GIT_EXEC_PATH"}
    return kept | {
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CEILING_DIRECTORIES": str(top.parent),
        "LC_ALL": "C",
    }
