"""Compare what two installs of precfix find in real trees and would write there. Not a test by itself.

    python -m tests.compare OLD NEW --trees TREE LIST ... --out FOLDER [--packages NAME ...] > differences.md

OLD and NEW are interpreters that have precfix, or checkouts with a `.venv`. TREE is a folder, LIST a file with one
folder per line. Results are kept below FOLDER for each install's code, so an install that did not change is not run
again; with OLD alone they are only made. The exit code is 1 when anything differs, and 2 when a tree is missing or
an install fails on one that the other gets done.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .compare_findings import diff_changes, differences, findings_of
from .compare_report import Compared, markdown
from .compare_runs import Install, Limits, NoInstall, Result, result_of
from .corpus_packages import CACHE, NoPackage, tree_of


def main(argv: Sequence[str] | None = None) -> int:
    """Run what has not been run, and print the comparison as Markdown."""
    arguments = _parser().parse_args(argv)
    try:
        installs = [Install.at(path) for path in (arguments.old, arguments.new) if path is not None]
        trees = [*_trees(arguments.trees), *(tree_of(name, arguments.cache) for name in arguments.packages)]
        _check(trees)
    except (NoInstall, NoPackage, NotADirectoryError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 2
    limits = Limits(arguments.limit, not arguments.no_safe_diff)
    results = [_results(install, trees, arguments.out, limits, arguments.jobs) for install in installs]
    if len(results) < 2:
        return int(any(result.problem for result in results[0])) * 2
    compared = [_compared(tree, old, new, arguments.messages) for tree, old, new in zip(trees, *results, strict=True)]
    print(markdown(compared))
    if any(bool(each.old.problem) != bool(each.new.problem) for each in compared):
        return 2
    return int(any(each.differences or each.diffs for each in compared))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tests.compare", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW", nargs="?")
    parser.add_argument(
        "--trees", nargs="+", type=Path, default=[], metavar="TREE", help="folders, or lists of folders"
    )
    parser.add_argument("--packages", nargs="+", default=[], metavar="NAME", help="wheels to download and unpack")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where they are kept (default: {CACHE})")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where results are kept")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="trees at a time")
    parser.add_argument("--limit", type=float, default=900, metavar="SECONDS", help="for one command on one tree")
    parser.add_argument("--no-safe-diff", action="store_true", help="one command per tree: all but the safe diff")
    parser.add_argument("--messages", action="store_true", help="other wording is a difference too")
    return parser


def _trees(named: Sequence[Path]) -> Iterator[Path]:
    for path in named:
        if path.is_file():
            yield from (Path(line.strip()) for line in path.read_text("utf-8").splitlines() if line.strip())
        else:
            yield path


def _check(trees: Sequence[Path]) -> None:
    for tree in trees:
        if not tree.is_dir():
            raise NotADirectoryError(f"no such folder: {tree}")
    for name, count in Counter(tree.name for tree in trees).items():
        if count > 1:
            raise NotADirectoryError(f"{count} trees are called {name}: results are kept by this name")


def _results(install: Install, trees: Sequence[Path], kept: Path, limits: Limits, jobs: int) -> list[Result]:
    with ThreadPoolExecutor(jobs) as pool:
        return [*pool.map(lambda tree: result_of(install, tree.absolute(), kept, limits), trees)]


def _compared(tree: Path, old: Result, new: Result, messages: bool) -> Compared:
    if old.problem or new.problem:
        return Compared(tree, old, new, (), ())
    found = differences(findings_of(old.report), findings_of(new.report), messages)
    diffs = [f"{path} (unsafe fixes)" for path in diff_changes(old.unsafe_diff, new.unsafe_diff)]
    if old.safe_diff is not None and new.safe_diff is not None:
        diffs += [f"{path} (safe fixes)" for path in diff_changes(old.safe_diff, new.safe_diff)]
    return Compared(tree, old, new, tuple(found), tuple(diffs))


if __name__ == "__main__":
    sys.exit(main())
