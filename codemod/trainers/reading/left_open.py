"""What a run leaves to a file that nobody knows: defaults of its code that count where the file lacks the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...outcome import Declaration
from ...source.project import Project
from .opened_files import Started, left_to_file
from .run_members import Run
from .run_settings import strongest_switches


def open_defaults(project: Project, run: Run, items: Iterable[Declaration]) -> dict[Declaration, Declaration]:
    """The followed defaults in whose place such a file decides, each as it then has to be told."""
    return dict(_left(project, run, items))


def _left(project: Project, run: Run, items: Iterable[Declaration]) -> Iterator[tuple[Declaration, Declaration]]:
    started = Started(run.place.path, run.command)
    for item in items:
        file = left_to_file(project, item.path, item.span, started) if item.feeds and item.role == "option" else ""
        if file:
            yield item, replace(item, regime="", feeds=f"{item.feeds}; unless {file} says it")


def left_switches(run: Run, items: Sequence[Declaration], left: Mapping[Declaration, Declaration]) -> str:
    """The keys that switch a region of the run on or off, where neither its line nor a known file says which."""
    told = {item: each for item, each in left.items() if item.regime and item.condition}
    keys: dict[str, None] = {}
    for condition in {item.condition: None for item in told}:
        given = strongest_switches(run, [item for item in items if item.condition == condition])
        if all(item.role == "option" for item in given):
            keys |= {item.key: None for item in told if item.condition == condition}
    return " and ".join(keys)


def is_left(run: Run) -> bool:
    """Whether the precision of a trainer's call is left to such a file, or to the machine."""
    return any(item.left_to or item.without for member in run.members for item in member.effective_handed)
