"""What was measured, as Markdown: medians, and ratios of medians of the same run."""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .measure import Cost
from .plan import COPIES, Subject

BEGIN, END = "<!-- benchmarks: written by python -m benchmarks -->", "<!-- end of benchmarks -->"


@dataclass(frozen=True, slots=True)
class Measured:
    """A subject and the median cost of each of its runs; a run that could not be made has the reason instead."""

    subject: Subject
    costs: Mapping[str, Cost]
    missing: Mapping[str, str]


def median_of(costs: Sequence[Cost]) -> Cost:
    """Each figure's own median."""
    return Cost(*(statistics.median(each) for each in zip(*((c.cpu, c.wall, c.peak) for c in costs), strict=True)))


def report(measured: Iterable[Measured], runs: int) -> str:
    """All tables, and what they were measured on."""
    measured = list(measured)
    parts = [_machine(runs), *("\n".join(_table(each)) for each in measured)]
    growth = _growth(measured)
    return "\n\n".join([*parts, *(["\n".join(growth)] if growth else [])]) + "\n"


def _machine(runs: int) -> str:
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    version = ".".join(map(str, sys.version_info[:3]))
    return (
        f"Measured on {os.cpu_count()} cores with {pages:.0f} GiB of memory, Python {version}; medians of "
        f"{runs} run{'s' if runs != 1 else ''}, all commands in turn. CPU seconds are user and system time of all "
        "processes; memory is what all processes held at the same time."
    )


def _table(measured: Measured) -> list[str]:
    subject = measured.subject
    heading = f"### {subject.name}" + (f" ({subject.size})" if subject.size else "")
    named = f"x {subject.base}"
    lines = [
        heading,
        "",
        f"| run | CPU s | wall s | peak MB | CPU, {named} | wall, {named} |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    base = measured.costs[subject.base]
    for run in subject.runs:
        if run.name in measured.costs:
            lines.append(_row(run.name, measured.costs[run.name], base))
        elif run.name in measured.missing:
            lines.append(f"| {run.name} | not measured: {measured.missing[run.name]} | | | | |")
    return lines


def _row(name: str, cost: Cost, base: Cost) -> str:
    cpu, wall = _ratio(cost.cpu, base.cpu), _ratio(cost.wall, base.wall)
    return f"| {name} | {cost.cpu:.2f} | {cost.wall:.2f} | {cost.peak:.0f} | {cpu} | {wall} |"


def _ratio(one: float, other: float) -> str:
    return f"{one / other:.2f}" if other else ""


def _growth(measured: Sequence[Measured]) -> list[str]:
    """How the costs of several copies of a tree compare with those of one."""
    found = {each.subject.name.partition("x ")[0]: each for each in measured if each.subject.name[0].isdigit()}
    one = found.get(str(COPIES[0]))
    if one is None or len(found) < 2:
        return []
    lines = ["### Growth: CPU seconds of n copies, x those of one", ""]
    lines += ["| run | " + " | ".join(f"{number} copies" for number in found if number != "1") + " |"]
    lines += ["|---|" + "--:|" * (len(found) - 1)]
    for run, cost in one.costs.items():
        others = [each.costs.get(run) for number, each in found.items() if number != "1"]
        lines.append(f"| {run} | " + " | ".join(_ratio(o.cpu, cost.cpu) if o else "" for o in others) + " |")
    return lines


def write_into(page: Path, text: str) -> None:
    """Put the tables in place of those of the last time, between two marks."""
    before, begin, rest = page.read_text("utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{page} has no marks {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}", encoding="utf-8")
