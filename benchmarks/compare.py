"""Time precfix against a peer on the same tree, in the same run, and print ratios."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

SCRIPTS = Path(sysconfig.get_path("scripts"))


def main() -> int:
    """Print one line per measurement: median seconds, processor seconds, peak megabytes, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", nargs="?", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--start", action="store_true", help="compare start-up instead")
    arguments = parser.parse_args()
    if not arguments.start and arguments.tree is None:
        parser.error("name a tree, or use --start")
    for line in compare(_commands(arguments.tree, arguments.start), arguments.runs):
        print(line)
    return 0


def _commands(tree: Path | None, start: bool) -> dict[str, list[str]]:
    if start or tree is None:
        return {
            "precfix --version": [str(SCRIPTS / "precfix"), "--version"],
            "python -c pass": [sys.executable, "-c", "pass"],
        }
    ruff = [str(SCRIPTS / "ruff"), "check", "--isolated", "--no-cache", "--quiet", "--select", "UP,NPY", str(tree)]
    return {"precfix check": [str(SCRIPTS / "precfix"), "check", "-q", str(tree)], "ruff check": ruff}


def compare(commands: dict[str, list[str]], runs: int) -> list[str]:
    """Run the commands in turn, one warm-up first; the ratio is that of the first command to the second."""
    measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in commands}
    for number in range(runs + 1):
        for name, command in commands.items():
            result = _timed(command)
            if number:
                measured[name].append(result)
    medians = {
        name: [statistics.median(column) for column in zip(*rows, strict=True)] for name, rows in measured.items()
    }
    lines = [
        f"{name:<18} {wall:8.2f} s  {cpu:8.2f} cpu s  {peak:7.0f} MB" for name, (wall, cpu, peak) in medians.items()
    ]
    first, second = medians.values()
    ratios = [one / other for one, other in zip(first, second, strict=True)]
    return [*lines, "ratio              {:8.2f}    {:8.2f}        {:7.2f}".format(*ratios)]


def _timed(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak megabytes of one run; its exit code does not matter."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return time.perf_counter() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
