"""The benchmark measures what it says it does, and its tables hold what was measured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import __main__ as benchmark
from benchmarks.measure import Cost
from benchmarks.table import BEGIN, END, write_into

from .fixture_cases import REPOSITORY

WORK = "import torch\n\n\ndef work(tensor):\n    return tensor.half()\n"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    for name in ("one", "two"):
        for number in range(4):
            path = tmp_path / "trees" / name / f"part{number}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(WORK, encoding="utf-8")
    return tmp_path / "trees"


class Clock:
    """Costs that follow from a command alone, in place of measured ones; they keep what was run."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str], stdin: bytes = b"") -> Cost:
        self.commands.append(tuple(command))
        words = {Path(word).name for word in command}
        cpu = 2.0 if "ruff" in words else 30.0 if "precfix" in words else 1.0
        return Cost(cpu=cpu, wall=cpu / 2, peak=100.0)


def rows_of(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below a heading, without its head."""
    _, _, below = text.partition(f"### {heading}")
    lines = [line for line in below.partition("###")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("benchmarks.__main__", "benchmarks.plan"):
        monkeypatch.setattr(f"{module}.cost_of", clock)
    monkeypatch.setattr(benchmark, "adopt_orphans", lambda: None)
    monkeypatch.setattr(benchmark, "options_known", lambda: frozenset({"--no-cache", "--jobs", "--project"}))
    return clock


def test_each_tree_the_whole_and_copies_have_a_table(
    trees: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark.main([str(trees), "--runs", "1"])
    text = capsys.readouterr().out
    headings = [line[4:].partition(" (")[0] for line in text.splitlines() if line.startswith("### ")]
    assert headings == [
        "start", "small project", "one", "two", "all trees", "1x one", "2x one", "4x one",
        "Growth: CPU seconds of n copies, x those of one",
    ]  # fmt: skip
    runs = [row[0] for row in rows_of(text, "all trees")]
    assert runs == [
        "read", "ast.parse", "ruff", "cold", "cold, 1 job", "unchanged", "3 files changed", "1 file on stdin",
        "1 file on stdin, --project",
    ]  # fmt: skip


def test_ratios_are_those_of_what_was_measured(trees: Path, clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    benchmark.main([str(trees), "--runs", "3"])
    text = capsys.readouterr().out
    rows = {row[0]: row[1:] for row in rows_of(text, "one")}
    assert rows["ruff"] == ["2.00", "1.00", "100", "1.00", "1.00"]
    assert rows["cold"] == ["30.00", "15.00", "100", "15.00", "15.00"]
    assert rows["read"] == ["1.00", "0.50", "100", "0.50", "0.50"]
    assert {row[0]: row[4] for row in rows_of(text, "start")} == {
        "python -c pass": "1.00", "precfix --version": "30.00", "one file of 100 lines": "30.00",
    }  # fmt: skip
    assert ["cold", "1.00", "1.00"] in rows_of(text, "Growth")


def test_commands_run_in_turn_and_a_kept_answer_is_brought_up_to_date_first(trees: Path, clock: Clock) -> None:
    benchmark.main([str(trees), "--runs", "2", "--only", "one: unchanged", "one: 3 files"])
    ran = [("ruff" if "--select" in command else "precfix") for command in clock.commands]
    assert ran[:10] == ["ruff", "precfix", "precfix", "precfix", "precfix"] * 2  # each fills before it is measured


def test_changed_files_differ_in_every_run(trees: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, ...]] = []

    def look(command: Sequence[str], stdin: bytes = b"") -> Cost:
        if "--select" not in command:
            seen.append(tuple(path.read_text("utf-8") for path in sorted(Path(command[-1]).rglob("*.py"))))
        return clock(command, stdin)

    monkeypatch.setattr(benchmark, "cost_of", look)
    benchmark.main([str(trees), "--runs", "2", "--only", "two: 3 files"])
    first, second = seen
    assert sum(text != WORK for text in first) == 3
    assert sum(one != other for one, other in zip(first, second, strict=True)) == 3
    assert {path.read_text("utf-8") for path in trees.rglob("*.py")} == {WORK}, "the user's trees are left alone"


def test_an_option_that_is_missing_is_said(
    trees: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(benchmark, "options_known", lambda: frozenset({"--no-cache"}))
    benchmark.main([str(trees), "--runs", "1", "--only", "two: cold"])
    rows = rows_of(capsys.readouterr().out, "two")
    assert [row[0] for row in rows] == ["ruff", "cold", "cold, 1 job"]
    assert rows[2][1] == "not measured: precfix check has no --jobs"


def test_tables_take_the_place_of_those_of_the_last_time(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Before\n\n{BEGIN}\nold\n{END}\n\nAfter.\n", encoding="utf-8")
    write_into(page, "new\n")
    assert page.read_text("utf-8") == f"# Before\n\n{BEGIN}\n\nnew\n\n{END}\n\nAfter.\n"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="no marks"):
        write_into(page, "new\n")


def test_it_really_runs(trees: Path) -> None:
    """With the commands of this installation, on a few files."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", str(trees), "--runs", "1", "--only", "one: read", "start: precfix --v"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert [row[0] for row in rows_of(done.stdout, "one")] == ["read", "ruff"]
    (_, pass_cpu, *_), (_, cpu, _, peak, ratio, _) = rows_of(done.stdout, "start")
    assert float(peak) > 0
    assert abs(float(ratio) - float(cpu) / float(pass_cpu)) < float(ratio)


TWO = """
import subprocess, sys
children = [subprocess.Popen([sys.executable, "-c", sys.argv[1]]) for _ in range(2)]
[child.wait() for child in children]
"""
HOLD = """
import time
block = bytearray(80_000_000)
block[::4096] = b"x" * len(block[::4096])
time.sleep(1)
"""
LEAVE = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", sys.argv[1]])
time.sleep(1.5)
"""
BURN = """
import time
while time.process_time() < 0.5:
    pass
"""


def test_processes_count_together() -> None:
    """CPU time and memory of children, a child that nobody waits for included; a crash is no result."""
    program = (
        "from benchmarks.measure import Died, adopt_orphans, cost_of\nimport sys\nadopt_orphans()\n"
        f"print(cost_of([sys.executable, '-c', {TWO!r}, {HOLD!r}]).peak)\n"
        f"print(cost_of([sys.executable, '-c', {LEAVE!r}, {BURN!r}]).cpu)\n"
        "try:\n    cost_of([sys.executable, '-c', 'raise SystemExit(2)'])\nexcept Died:\n    print('died')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    peak, cpu, last = done.stdout.splitlines()
    assert float(peak) > 150
    assert float(cpu) >= 0.5
    assert last == "died"
