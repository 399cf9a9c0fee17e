"""Keeps the answer of a run, with all that it looked at, for `cache.answers` to tell again."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO, cast

from ..cache.answers import KeptRun, Looked, keep, key_of, kind_at
from ..cache.folder import folder_to_write
from ..cache.states import changed_ns, state_of

if TYPE_CHECKING:
    from ..outcome import Report
    from ..screening.baseline import Baseline
    from .commands import Request
    from .request import Opened

CLOCK_NS = 20_000_000
"""By how much the time of a change may lag behind the clock."""
KEPT_CODES = (0, 1, 2)


class _Listening:
    """One run that may be kept."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.started_ns = time.time_ns() - CLOCK_NS
        self.told: list[tuple[int, bytes]] = []
        self.written: list[tuple[str, bytes]] = []
        self.looked: Looked | None = None


_listening: _Listening | None = None


@contextmanager
def answering(words: Sequence[str]) -> Iterator[None]:
    """Listen to a run that ends with SystemExit, and keep its answer if it has said all that it looked at."""
    global _listening
    key = key_of([*words]) if hasattr(sys.stdout, "buffer") and hasattr(sys.stderr, "buffer") else ""
    if not key or folder_to_write() is None:
        yield
        return
    _listening = heard = _Listening(key)
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _tee(sys.stdout, 1, heard.told), _tee(sys.stderr, 2, heard.told)
    try:
        yield
    except SystemExit as stop:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if heard.looked is not None and stop.code in KEPT_CODES:
            code = stop.code if isinstance(stop.code, int) else 0
            keep(key, KeptRun(code, heard.told, heard.written), heard.looked)
        raise
    finally:
        sys.stdout, sys.stderr = streams
        _listening = None


class _Tee(io.BufferedIOBase):
    """Hands bytes on and remembers them."""

    def __init__(self, target: BinaryIO, number: int, told: list[tuple[int, bytes]]) -> None:
        self._target, self._number, self._told = target, number, told

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self._told.append((self._number, bytes(data)))
        return self._target.write(data)

    def flush(self) -> None:
        self._target.flush()

    def isatty(self) -> bool:
        return self._target.isatty()

    def fileno(self) -> int:
        return self._target.fileno()


def _tee(stream: TextIO, number: int, told: list[tuple[int, bytes]]) -> TextIO:
    buffer = cast("BinaryIO", _Tee(stream.buffer, number, told))
    lines = getattr(stream, "line_buffering", False)
    return io.TextIOWrapper(buffer, stream.encoding, stream.errors, line_buffering=lines, write_through=True)


def wrote(path: Path, data: bytes) -> None:
    """Note a file that was asked for."""
    if _listening is not None:
        _listening.written.append((os.fspath(path), data))


def looked_at(opened: Opened, request: Request, report: Report) -> None:
    """Note all that the run has looked at, when its answer depends on nothing else."""
    if _listening is None or request.is_stdin or request.diff_base is not None or request.probe:
        return
    if opened.has_plugins or report.failed_rules:  # what they look at is not known
        return
    root, discovery = opened.project.root, opened.project.discovery
    left_out = [path for name in discovery.skipped if os.path.islink(path := os.path.join(root, *name.split("/")))]
    given = [*map(os.fspath, request.read), *left_out]
    places = {os.path.abspath(path): os.path.realpath(path) for path in given}
    paths, kinds = _paths(opened, request, [os.path.realpath(path) for path in request.read])
    kinds.update(dict.fromkeys(places[path] for path in left_out))
    for path in left_out:  # they lead out of the project or nowhere: nobody opens them
        del paths[path]
    seen = {path: state_of(path) for path in paths}
    if any(changed_ns(path) >= _listening.started_ns for path in paths):  # what was read is not what is there now
        return
    _listening.looked = Looked(seen, places, {path: kind_at(path) for path in kinds})


def _paths(opened: Opened, request: Request, starts: Sequence[str]) -> tuple[dict[str, None], dict[str, None]]:
    """Everything whose content counts, and everything whose mere presence does."""
    from ..settings.settings import FILES
    from .machine import PROFILE_NAMES
    from .observations import OBSERVED_NAMES

    project, discovery = opened.project, opened.project.discovery
    root = os.fspath(project.root)
    files = [os.path.join(root, *path.split("/")) for path in (*discovery.paths, *discovery.skipped)]
    listed = dict.fromkeys(discovery.folders)
    above = dict.fromkeys(os.fspath(folder) for start in starts for folder in (Path(start), *Path(start).parents))
    between = dict.fromkeys(os.path.dirname(file) for file in files)
    seen = [
        *files,
        *listed,
        *discovery.asked,
        *(os.path.join(root, name) for name in (*PROFILE_NAMES, *OBSERVED_NAMES)),
    ]
    seen += [os.path.join(folder, ".git", "info", "exclude") for folder in above]
    for folder in {**listed, **between, **above}:
        here = [os.path.join(folder, name) for name in (".gitignore", *FILES)]
        seen += [path for path in here if folder not in listed or os.path.lexists(path)]
    each = [*opened.settings.all()]
    named = [
        request.profile,
        request.observed,
        request.baseline,
        *(item for one in each for item in (one.profile, one.baseline)),
    ]
    seen += [os.path.abspath(path) for path in named if path is not None]
    seen += [os.path.abspath(path) for one in each for path in (*one.frameworks, *one.sources)]
    kinds = [os.path.join(folder, ".git") for folder in above]
    kinds += [os.path.join(path.parent, ".git") for one in each for path in one.sources]
    kinds += [os.path.join(root, ".precfix"), *_named_by(opened.screen.baseline)]
    return dict.fromkeys(seen), dict.fromkeys(kinds)


def _named_by(baseline: Baseline | None) -> list[str]:
    """The files that a baseline speaks of: whether they exist decides whether an entry is out of date."""
    if baseline is None:
        return []
    folder = os.path.dirname(os.path.realpath(baseline.path))
    return [os.path.normpath(os.path.join(folder, entry.path)) for entry in baseline.entries.values()]
