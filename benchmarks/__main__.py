"""``python -m benchmarks FOLDER``: precfix, ruff, ast.parse and a plain read on every tree in a folder."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from .measure import Cost, adopt_orphans, cost_of
from .plan import Run, Subject, options_known, subjects
from .table import Measured, median_of, report, write_into

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"


def main(arguments: list[str] | None = None) -> int:
    """Measure, and print the tables."""
    asked = _parser().parse_args(arguments)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="precfix-benchmarks-") as name:
        work = Path(name)
        os.environ["XDG_CACHE_HOME"] = os.environ["PRECFIX_CACHE_DIR"] = str(work / "cache")
        known = options_known()
        measured = []
        for each in subjects(asked.folder, work, asked.copied, known):
            subject = _narrowed(each, asked.only)
            if len(subject.runs) > 1:
                measured.append(_measured(subject, asked.runs, known))
    text = report(measured, asked.runs)
    print(text, end="")
    if asked.markdown:
        write_into(PAGE, text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("folder", type=Path, help="a folder of source trees, such as unpacked wheels")
    parser.add_argument("--runs", type=int, default=3, help="how often each command runs; medians are shown")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORD", help='runs whose "subject: run" holds one of these words'
    )
    parser.add_argument("--copied", default="", metavar="TREE", help="the tree to copy  [default: the smallest]")
    parser.add_argument("--markdown", action="store_true", help="also write the tables into docs/performance.md")
    return parser


def _narrowed(subject: Subject, words: Iterable[str]) -> Subject:
    """The subject with the runs that were asked for, and the one that ratios are taken to."""
    words = list(words)

    def wanted(run: Run) -> bool:
        return not words or any(word in f"{subject.name}: {run.name}" for word in words)

    if not any(map(wanted, subject.runs)):
        return Subject(subject.name, (), subject.base)
    runs = tuple(run for run in subject.runs if run.name == subject.base or wanted(run))
    return Subject(subject.name, runs, subject.base, subject.size)


def _measured(subject: Subject, times: int, known: frozenset[str]) -> Measured:
    missing = {
        run.name: f"precfix check has no {run.needs}" for run in subject.runs if run.needs and run.needs not in known
    }
    runs = [run for run in subject.runs if run.name not in missing]
    costs: dict[str, list[Cost]] = {run.name: [] for run in runs}
    for number in range(times):
        for run in runs:
            print(f"{subject.name}: {run.name} ({number + 1} of {times})", file=sys.stderr)
            run.prepare()
            costs[run.name].append(cost_of(run.command, run.stdin))
    return Measured(subject, {name: median_of(each) for name, each in costs.items()}, missing)


if __name__ == "__main__":
    sys.exit(main())
