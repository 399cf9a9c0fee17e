"""Run precfix on real trees and check what must hold for every run. Not a test by itself: the trees are not ours.

    python -m tests.corpus --unsafe-fixes [--to fp32] TREE [TREE ...]
    python -m tests.corpus --packages accelerate trl peft [--cache FOLDER]

For each tree: `check` finishes and no rule fails; `migrate` on a copy keeps every changed file whole (see
`invariants`) and its mode; the order of the rules does not matter; a second run changes nothing; the patch is accepted
by `git apply` and gives the very bytes that `migrate` wrote; `undo` restores the copy; nothing else is written; torch
is never imported. The exit code is 1 when anything of this does not hold, and 2 when a package cannot be had.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from precfix.codemod import engine
from precfix.codemod.applying.apply import apply, undo
from precfix.codemod.engine import Options
from precfix.codemod.outcome import Report, Target
from precfix.codemod.report.diff import unified_diff
from precfix.codemod.source.project import Project
from precfix.transforms import load
from precfix.transforms.frameworks import load_frameworks

from .corpus_packages import CACHE, NoPackage, tree_of
from .invariants import problems_of

TARGET = Target("unknown", "not asked for")


@dataclass(frozen=True, slots=True)
class Checked:
    """One tree: what does not hold, and the figures."""

    name: str
    problems: tuple[str, ...]
    report: Report
    seconds: float


def main() -> int:
    """Check every tree; exit code 1 when anything failed, 2 when a package cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trees", nargs="*", type=Path)
    parser.add_argument("--packages", nargs="+", default=[], metavar="NAME", help="wheels to download and unpack")
    parser.add_argument("--cache", type=Path, default=CACHE, help=f"where they are kept (default: {CACHE})")
    parser.add_argument("--unsafe-fixes", action="store_true")
    parser.add_argument("--to", help="a target, as migrate takes it")
    arguments = parser.parse_args()
    missing = [f"no such folder: {tree}" for tree in arguments.trees if not tree.is_dir()]
    trees = [tree for tree in arguments.trees if tree.is_dir()]
    for name in arguments.packages:
        try:
            trees.append(tree_of(name, arguments.cache))
        except NoPackage as error:
            missing.append(str(error))
    if not trees and not missing:
        parser.error("neither a tree nor a package is given")
    done = []
    for tree in trees:
        done.append(check_tree(tree, Options(unsafe_fixes=arguments.unsafe_fixes), arguments.to))
        print(f"{tree.name}: {_summary(done[-1].report)}", flush=True)
        for problem in done[-1].problems:
            print(f"    PROBLEM {problem}", flush=True)
    _show_table(done)
    for problem in missing:
        print(f"MISSING {problem}")
    return 2 if missing else int(any(checked.problems for checked in done))


def check_tree(tree: Path, options: Options, to: str | None) -> Checked:
    """The invariants that do not hold for ``tree``, and its figures."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        copy, patched = Path(folder, "copy"), Path(folder, "patched")
        for target in (copy, patched):
            shutil.copytree(tree, target, symlinks=True)
        report = migrated(copy, options, to)
        seconds = time.perf_counter() - started
        problems = [*_report_problems(report)]
        if report.changes:
            problems += _order_problems(report, copy, options, to)
            problems += _written_problems(report, copy, patched, options, to)
        if sorted(path.name for path in Path(folder).iterdir()) != ["copy", "patched"]:
            problems.append("something was written beside the tree")
    if "torch" in sys.modules:
        problems.append("torch was imported")
    return Checked(tree.name, tuple(problems), report, seconds)


def migrated(tree: Path, options: Options, to: str | None, seed: int | None = None) -> Report:
    """What migrating ``tree`` would do; with a ``seed`` the rules come in another order."""
    project = Project.open([tree]).with_frameworks(load_frameworks()).with_target(to)
    rules = list(load())
    if seed is not None:
        random.Random(seed).shuffle(rules)
    return engine.migrate(project, rules, TARGET, options)


def _report_problems(report: Report) -> Iterator[str]:
    yield from (f"{skip.path} failed: {skip.reason}" for skip in report.failed_rules)
    for skip in report.skipped:
        if "not applied" in skip.reason or "settle" in skip.reason:
            yield f"{skip.path}: {skip.reason}"
    for change in report.changes:
        yield from (f"{change.path}: {problem}" for problem in problems_of(change))


def _order_problems(report: Report, copy: Path, options: Options, to: str | None) -> list[str]:
    other = migrated(copy, options, to, seed=1)
    same = (report.changes, report.findings) == (other.changes, other.findings)
    return [] if same else ["the order of the rules matters"]


def _written_problems(report: Report, copy: Path, patched: Path, options: Options, to: str | None) -> list[str]:
    before, modes = _files(copy), _modes(copy)
    apply(copy, report.changes, allow_dirty=True)
    changed = {change.path: change.after for change in report.changes}
    problems = [] if _files(copy) == {**before, **changed} else ["other files than the changed ones were written"]
    problems += [] if _modes(copy) == modes else ["the mode of a file is not kept"]
    problems += [f"second run changes {change.path}" for change in migrated(copy, options, to).changes]
    problems += _patch_problems(patched, copy, report)
    undo(copy)
    return problems + ([] if _files(copy) == before else ["undo does not restore the bytes"])


def _patch_problems(patched: Path, written: Path, report: Report) -> list[str]:
    patch = unified_diff(report.changes)
    result = subprocess.run(["git", "apply", "-"], cwd=patched, input=patch, capture_output=True, check=False)
    if result.returncode:
        return [f"git apply: {result.stderr.decode(errors='replace').strip()}"]
    paths = [change.path for change in report.changes]
    return [
        f"patch and result differ: {path}"
        for path in paths
        if (patched / path).read_bytes() != (written / path).read_bytes()
    ]


def _paths(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink() and ".precfix" not in path.relative_to(root).parts:
            yield path


def _files(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in _paths(root)}


def _modes(root: Path) -> dict[str, int]:
    return {path.relative_to(root).as_posix(): path.stat().st_mode for path in _paths(root)}


def _summary(report: Report) -> str:
    counts = Counter(finding.code for finding in report.findings)
    found = ", ".join(f"{code} {number}" for code, number in sorted(counts.items())) or "nothing found"
    return f"{found}; {len(report.applied)} fixed in {len(report.changes)} files; {len(report.skipped)} skipped"


def _show_table(done: list[Checked]) -> None:
    width = max([len(checked.name) for checked in done] + [4])
    print(f"\n{'tree':<{width}}  files  parsed  findings  fixed  changed  skipped  seconds  problems")
    for each in done:
        report = each.report
        print(
            f"{each.name:<{width}}  {report.files_seen:>5}  {report.files_parsed:>6}  {len(report.findings):>8}  "
            f"{len(report.applied):>5}  {len(report.changes):>7}  {len(report.skipped):>7}  {each.seconds:>7.1f}  "
            f"{len(each.problems):>8}"
        )


if __name__ == "__main__":
    sys.exit(main())
