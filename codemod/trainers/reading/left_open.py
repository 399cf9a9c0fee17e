"""What a run leaves to a file that nobody knows: defaults of its code that count where the file lacks the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...outcome import Declaration
from ...source.project import Project
from ..parsers.programs import interface_of
from .opened_files import Started, left_to_file
from .program_files import file_named
from .run_files import reads_python_file
from .run_members import Member, Run
from .run_settings import strongest_switches
from .scopes import CodeOrigin
from .stated_words import text_of

ELSEWHERE = "decided elsewhere"


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


def passed_together(run: Run) -> Iterator[tuple[Member, Declaration]]:
    """``Trainer(**config["trainer"])``: the setting that decides is among what a call is passed unseen."""
    for member in run.members:
        scope = member.scope
        leading = next((key for key in scope.framework.keys if key.means and key.arguments), None)
        unseen = [item.value for item in scope.call.keywords if item.arg is None] if scope.call is not None else []
        is_silent = not any(item.key.means for item in scope.settings)
        if scope.kind == "call" and scope.is_open and is_silent and unseen and leading is not None:
            assert isinstance(scope.origin, CodeOrigin)
            span = scope.origin.module.document.span(unseen[0])
            key = f"**{text_of(unseen[0])}"
            yield member, Declaration(scope.path, span, scope.framework.id, key, leading.role, ELSEWHERE)


def is_left(project: Project, run: Run) -> bool:
    """Whether the precision of a trainer's call is left to such a file, or to the machine."""
    is_known = any(member.scope.is_of_module or member.scope.kind == "file" for member in run.members)
    if not is_known and reads_python_file(project, run.modules):
        return True
    if any(_names_missing_file(project, path) for path in run.modules[:1]):
        return True
    return any(item.left_to or item.without for member in run.members for item in member.effective_handed)


def _names_missing_file(project: Project, script: str) -> bool:
    """``parser.parse_json_file("args.json")`` of a trainer's arguments, and the project holds no such file."""
    interface = interface_of(project, script)
    if interface is None or not interface.frameworks:
        return False
    return any(file_named(project, script, name) is None for name in interface.files)
