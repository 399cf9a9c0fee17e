"""Every saved crasher is read or refused with a documented error, in bounded time and memory; a short fuzzing run."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from .fuzz import CRASHERS, attempt, crashers_of, fuzz_once, limited, smaller
from .mutations import Code, damaged
from .nightly import NIGHTLY, examples
from .readers import READERS, Reader, bundled, seeds_of, unbundled

CASES = [(name, path) for name in READERS for path in crashers_of(name)]
MEGABYTES = 200
"""How much more memory than before the process may have used after all crashers."""


def test_every_folder_has_a_reader() -> None:
    folders = {path.name for path in CRASHERS.iterdir() if path.is_dir()}
    assert folders <= set(READERS), folders - set(READERS)
    assert len(CASES) > 100


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_crashers(name: str) -> None:
    before = _memory()
    faults = {path.name: attempt(READERS[name], path.read_bytes()) for path in crashers_of(name)}
    assert not {file: place for file, (outcome, place) in faults.items() if outcome == "fault"}
    assert _memory() - before < MEGABYTES, f"{name}: {_memory() - before} MB"


def _memory() -> float:
    """The most memory this process has used so far, in MB; 0 where the system does not say."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        return 0
    return getrusage(RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)


# --- the fuzzer itself ------------------------------------------------------------------------------------------------


def test_faults_are_told_and_made_smaller() -> None:
    def read(data: bytes, folder: Path) -> None:
        if b"bad" in data:
            raise KeyError("bad")

    reader = Reader(read, lambda: ())
    outcome, place = attempt(reader, b"a\nxbady\nc\n")
    assert outcome == "fault"
    assert place.startswith("KeyError in test_crashers.py, read, line ")
    assert attempt(reader, b"good") == ("read", "")
    assert smaller(b"a\nxbady\nc\n", lambda data: attempt(reader, data)[0] == "fault") == b"bad"


def test_what_does_not_end_is_told() -> None:
    def read(data: bytes, folder: Path) -> None:
        try:
            with limited(0.2):
                while True:
                    pass
        except Exception:  # what a reader catches must not hide it
            return

    outcome, place = attempt(Reader(read, lambda: ()), b"")
    assert (outcome, place.startswith("too slow")) == ("fault", True)


def test_damage_follows_the_seed() -> None:
    data = b"import torch\nx = [1, 2]\n"
    assert damaged(data, random.Random(3), [data]) == damaged(data, random.Random(3), [data])
    assert len({damaged(data, random.Random(seed), [data]) for seed in range(30)}) > 20
    code = Code([data.decode()])
    changed = [code.changed(data.decode(), random.Random(seed)) for seed in range(30)]
    assert len({each for each in changed if each is not None}) > 15


# --- a little fuzzing, always the same --------------------------------------------------------------------------------

RUNS = dict.fromkeys((name for name in READERS if name.startswith("run-")), 6)
ROUNDS = {"format-shell": 8, "format-makefile": 15, "journal": 40, "settings": 80, **RUNS}
"""Of the slow ones, and of one that refuses almost everything."""
PROJECTS = 60 if NIGHTLY else 15


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_read_or_refused(name: str) -> None:
    assert seeds_of(name)
    counts, faults = fuzz_once(name, ROUNDS.get(name, examples(40)), seed=6)
    assert not faults
    assert counts["read"], counts


def test_no_rule_fails_on_damaged_projects() -> None:
    """All rules on whole fixture projects whose Python files are changed as trees, the others as bytes."""
    counts, faults = fuzz_once("run-project", PROJECTS, seed=6)
    assert not faults
    assert counts == {"read": PROJECTS}


def test_a_bundle_is_its_files() -> None:
    files = [("a/b.py", b"x = 1\n"), ("c.yaml", b""), ("d", b"=== not a path\ta\n")]
    assert unbundled(bundled(files)) == files
