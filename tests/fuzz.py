"""Fuzzing of everything that reads files of other people. Not a test by itself: it runs as long as it is told to.

    python -m tests.fuzz --seconds 60 [--seed 1] [READER ...]

Each reader of tests/readers.py gets damaged seeds (files of fixtures/, of tests/crashers/, and some of its own). What
raises anything but a documented error, breaks a promise or takes too long is made smaller, line by line and piece by
piece, and saved in tests/crashers/<reader>/, where test_crashers.py reads it from then on. Exit code 1: faults found.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from .mutations import Code, damaged
from .readers import READERS, Reader, bundled, seeds_of, unbundled

CRASHERS = Path(__file__).resolve().parent / "crashers"
SECONDS = 10.0
"""Longer than this no file of this size may take."""
_MEMORY = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None


class TooSlow(BaseException):
    """A reader has not come back in time; no reader can swallow this."""


@contextmanager
def limited(seconds: float = SECONDS) -> Iterator[None]:
    """Raise TooSlow in the block after some seconds, where the system can."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def stop(*_: object) -> None:
        raise TooSlow(f"more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(reader: Reader, data: bytes) -> tuple[str, str]:
    """How reading went, and where it failed: ("read", ""), or ("fault", the last frame of the product)."""
    folder = Path(tempfile.mkdtemp(dir=_MEMORY)).resolve()
    try:
        work = folder / "work"
        work.mkdir()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with limited():
                return reader.outcome(data, work), ""
    except TooSlow as error:
        return "fault", f"too slow: {error}"
    except Exception as error:  # whatever it is: this is what is looked for
        return "fault", _place(error)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _place(error: Exception) -> str:
    frame = next(
        frame for frame in reversed(traceback.extract_tb(error.__traceback__)) if "site-packages" not in frame.filename
    )
    if isinstance(error, AssertionError) and "rule failed" in str(error):
        return str(error)[str(error).rindex("(") :]
    return f"{type(error).__name__} in {Path(frame.filename).name}, {frame.name}, line {frame.lineno}"


def smaller(data: bytes, fails: Callable[[bytes], bool], most: int = 400) -> bytes:
    """``data`` with as many lines, then pieces, taken out as it still fails without."""
    for split in (
        lambda text: text.splitlines(keepends=True),
        lambda text: [text[i : i + 1] for i in range(len(text))],
    ):
        parts = split(data)
        size = max(1, len(parts) // 2)
        while size and most > 0:
            at = 0
            while at < len(parts) and most > 0:
                shorter = parts[:at] + parts[at + size :]
                most -= 1
                if fails(b"".join(shorter)):
                    parts = shorter
                else:
                    at += size
            size //= 2
        data = b"".join(parts)
    return data


def fuzz_once(name: str, rounds: int, seed: int) -> tuple[Counter[str], dict[str, bytes]]:
    """A fixed number of cases. Counts of outcomes, and the faults: place -> file."""
    counts: Counter[str] = Counter()
    faults: dict[str, bytes] = {}
    for data, _ in zip(_cases(name, seed), range(rounds), strict=False):
        outcome, place = attempt(READERS[name], data)
        counts[outcome] += 1
        if outcome == "fault":
            faults.setdefault(place, data)
    return counts, faults


def fuzz(name: str, seconds: float, seed: int) -> tuple[Counter[str], dict[str, bytes]]:
    """As many cases as the time allows; what is at fault is made smaller and saved."""
    counts: Counter[str] = Counter()
    faults: dict[str, bytes] = {}
    end = time.monotonic() + seconds
    for data in _cases(name, seed):
        if time.monotonic() > end:
            break
        outcome, place = attempt(READERS[name], data)
        counts[outcome] += 1
        if outcome == "fault" and place not in faults:
            faults[place] = _smallest(READERS[name], data, place)
            _save(name, faults[place])
            print(f"{name}: {place}\n    {faults[place][:200]!r}", flush=True)
    return counts, faults


def _smallest(reader: Reader, data: bytes, place: str) -> bytes:
    return smaller(data, lambda part: attempt(reader, part) == ("fault", place))


def _cases(name: str, seed: int) -> Iterator[bytes]:
    source = random.Random(seed)
    seeds = [*seeds_of(name), *(path.read_bytes() for path in crashers_of(name))] or [b""]
    lent = source.sample(seeds, min(len(seeds), 60))
    code = Code([data.decode("latin-1") for data in lent]) if "python" in name else None
    if name == "run-project":
        texts = [data.decode("latin-1") for bundle in lent for path, data in unbundled(bundle) if path.endswith(".py")]
        yield from _projects(source, seeds, Code(texts))
    while True:
        yield _next(source, seeds, code)


def _projects(source: random.Random, seeds: list[bytes], code: Code) -> Iterator[bytes]:
    """Whole projects, each file damaged by itself or not at all."""
    while True:
        files = unbundled(source.choice(seeds))
        pool = [data for _, data in files]
        yield bundled([(path, _damaged_file(path, data, pool, source, code)) for path, data in files])


def _damaged_file(path: str, data: bytes, pool: list[bytes], source: random.Random, code: Code) -> bytes:
    chance = source.random()
    if path.endswith(".py") and chance < 0.6:
        changed = code.changed(data.decode("latin-1"), source)
        return data if changed is None else changed.encode("utf-8", "surrogatepass")
    return damaged(data, source, pool) if chance < 0.85 else data


def _next(source: random.Random, seeds: list[bytes], code: Code | None) -> bytes:
    data = source.choice(seeds)
    if code is not None and source.random() < 0.7:
        changed = code.changed(data.decode("latin-1"), source)
        if changed is not None:
            return changed.encode("utf-8", "surrogatepass")
    return damaged(data, source, seeds)


def crashers_of(name: str) -> list[Path]:
    """The saved files of a reader."""
    return sorted(path for path in (CRASHERS / name).glob("*") if path.is_file())


def _save(name: str, data: bytes) -> None:
    folder = CRASHERS / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"found-{hashlib.sha256(data).hexdigest()[:12]}").write_bytes(data)


def main() -> int:
    """Fuzz the readers asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("readers", nargs="*", metavar="READER", help=f"one of {', '.join(READERS)}")
    parser.add_argument("--seconds", type=float, default=30, help="for each reader")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    unknown = set(arguments.readers) - set(READERS)
    if unknown:
        parser.error(f"no reader {', '.join(sorted(unknown))}; there are {', '.join(READERS)}")
    failed = False
    for name in arguments.readers or READERS:
        counts, faults = fuzz(name, arguments.seconds, arguments.seed)
        failed |= bool(faults)
        print(
            f"{name}: {counts.total()} cases: {', '.join(f'{key} {n}' for key, n in counts.most_common())}", flush=True
        )
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
