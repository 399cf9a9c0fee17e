"""Faults at every step of apply and undo: what was tried, and what was lost.

``python -m tests.fault_injection`` runs the whole campaign on temporary folders (it takes long; progress on stderr)
and prints the table; ``--write`` puts it into docs/safety.md. The steps are found by counting (`fault_steps`). After
each fault every file must have its old or its new bytes and its permissions, the message must be one line, `undo` must
bring the old bytes back, and a new run must work.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path

from .fault_cases import (
    KINDS,
    OPERATIONS,
    Operation,
    in_child,
    sandbox,
    steps_of,
    try_kind,
    try_other,
)
from .fault_machine import MACHINES, Skipped
from .fault_others import EDITS, OTHERS, OWN_FOLDER, RUNS, Other
from .fault_project import Result, check, settle
from .fault_steps import signaled

DOCS = Path(__file__).resolve().parents[1] / "docs" / "safety.md"
BEGIN, END = "<!-- faults: written by python -m tests.fault_injection -->", "<!-- end of faults -->"

HEAD = ("Fault", *(operation.name for operation in OPERATIONS), "wrong states", "bytes lost")


@dataclass(frozen=True)
class Row:
    """A row of the table: ``run(folder, every, result)`` tries each ``every``-th of its cases; raises Skipped."""

    name: str
    run: Callable[[Path, int, Result], None]
    other: bool = False
    """Whether another program works in the project meanwhile."""


def rows() -> list[Row]:
    """The whole campaign."""
    return [
        *(Row(kind.name, partial(_at_steps, partial(try_kind, kind), kind.only)) for kind in KINDS),
        Row("killed, and its undo killed too", killed_again),
        Row("another program edits a file", _edited, other=True),
        *(_of_other("another program", other) for other in (*OTHERS, *OWN_FOLDER)),
        *(_of_other("meanwhile", other) for other in RUNS),
        *(Row(machine.name, machine.run) for machine in MACHINES),
    ]


def _of_other(who: str, other: Other) -> Row:
    name = other.name if other in RUNS else f"{who} {other.name}"
    return Row(name, partial(_at_steps, partial(try_other, other), ()), other=True)


def _at_steps(
    case: Callable[[Operation, int, Path, Result], None],
    only: Sequence[str],
    folder: Path,
    every: int,
    result: Result,
) -> None:
    """Try a fault at each ``every``-th step (of some functions, or of all) of every operation."""
    for number, operation in enumerate(OPERATIONS):
        steps = [at for at, (name, _) in enumerate(steps_of(operation, folder)) if not only or name in only]
        for at in steps[(7 * number + every // 2) % every :: every]:
            case(operation, at, folder, result)


def _edited(folder: Path, every: int, result: Result) -> None:
    for edit in EDITS:
        _at_steps(partial(try_other, edit), (), folder, every, result)


def killed_again(folder: Path, every: int, result: Result) -> None:
    """Undo after a crash is killed, and so is the undo after that, at other steps."""
    operation = OPERATIONS[-1]
    steps = len(steps_of(operation, folder))
    for first in range(0, steps, every):
        for second in range(first % 13, steps, 13 * every):
            with sandbox(folder) as box:
                operation.prepare(box)
                for at in (first, second):
                    in_child(box.undo, signaled(at, signal.SIGKILL))
                result.count(operation.name)
                what = f"killed at {first} and {second}"
                check(box, result, what)
                settle(box, result, what)


# --- the table --------------------------------------------------------------------------------------------------------


def campaign(folder: Path, every: int = 1, jobs: int = 1) -> list[tuple[Row, Result]]:
    """Try everything, some rows at a time; those that this machine cannot try are missing."""
    chosen = rows()
    with ProcessPoolExecutor(jobs) as pool:
        results = list(pool.map(_try_row, range(len(chosen)), repeat(folder), repeat(every)))
    return [(row, result) for row, result in zip(chosen, results, strict=True) if result is not None]


def _try_row(number: int, folder: Path, every: int) -> Result | None:
    """Try the cases of a row, and say on stderr how it went; None when this machine cannot."""
    row, result, began = rows()[number], Result(), time.monotonic()
    try:
        row.run(folder, every, result)
    except Skipped as reason:
        print(f"{row.name}: skipped: {reason}", file=sys.stderr)
        return None
    cases, took = sum(result.cases.values()), time.monotonic() - began
    print(f"{row.name}: {cases} cases, {len(result.wrong)} wrong, {took:.0f} s", file=sys.stderr, flush=True)
    for line in result.wrong[:5]:
        print(f"  {line}", file=sys.stderr)
    return result


def table(results: Sequence[tuple[Row, Result]]) -> str:
    """The table for docs/safety.md, with its total and what the numbers mean."""
    total = Result()
    lines = [_line(*HEAD), _line("---", *["---:"] * (len(HEAD) - 1))]
    for row, result in results:
        lines.append(_counted(row.name, result))
        for name, cases in result.cases.items():
            total.cases[name] = total.cases.get(name, 0) + cases
        total.wrong += result.wrong
        total.lost += result.lost
        total.told += result.told
        total.windows += result.windows
    lines.append(_counted("**all**", total))
    other = sum(sum(result.cases.values()) for row, result in results if row.other)
    return "\n".join(lines) + "\n\n" + _remarks(total, other)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _counted(name: str, result: Result) -> str:
    counts = [f"{result.cases[each.name]:,}" if each.name in result.cases else "" for each in OPERATIONS]
    return _line(name, *counts, str(len(result.wrong)), f"{result.lost:,}")


def _remarks(total: Result, other: int) -> str:
    return (
        f"{sum(total.cases.values()):,} cases in all. In {total.told:,} of them the next run did not start at once: a\n"
        "lock had been left empty or half written, and the message named the file to delete. In the\n"
        f"{other:,} cases with another program, {total.windows:,} of its changes to a file came between the last look\n"
        "at that file and the renaming over it and were overwritten. They are not in the columns above (see below).\n"
    )


def with_table(text: str, content: str) -> str:
    """``text`` with the part between the markers replaced."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"markers {BEGIN!r} ... {END!r} are missing")
    return f"{head}{begin}\n\n{content}\n{end}{tail}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put the table into docs/safety.md")
    parser.add_argument("--every", type=int, default=1, help="only each N-th case, for a quick look")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="how many rows at a time")
    parser.add_argument("--folder", default=None, help="where to work; a memory disk is quickest")
    chosen = parser.parse_args()
    if chosen.write and chosen.every != 1:
        parser.error("only the whole campaign is written")
    with tempfile.TemporaryDirectory(dir=chosen.folder) as folder:
        results = campaign(Path(folder), chosen.every, chosen.jobs)
    text = table(results)
    print(text)
    wrong = sum(len(result.wrong) for _, result in results)
    if chosen.write and not wrong and len(results) == len(rows()):
        DOCS.write_text(with_table(DOCS.read_text("utf-8"), text), "utf-8")
    elif chosen.write:
        print("not written: something is wrong or was skipped", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
