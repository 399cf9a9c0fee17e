"""What a run leaves to a file that nobody knows: defaults of its code that count where the file lacks the key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...model import Span
from ...outcome import Declaration
from ...source.project import Project
from ...torch.autocast import autocasts
from ..parsers.programs import interface_of
from .numerals import truths
from .opened_files import Started, left_to_file
from .program_files import file_named
from .region_switches import made_if, main_switch
from .run_files import reads_python_file
from .run_members import Run, RunMember
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


def by_switches(
    project: Project, run: Run, items: Sequence[Declaration], left: Mapping[Declaration, Declaration], regime: str
) -> tuple[str, str] | None:
    """What a run computes in by default, and what else, where files that nobody knows switch its regions."""
    switches = _left_switches(run, items, left)
    keys, said = _guessed_switches(project, items) if not switches else ("", frozenset[bool]())
    if said == {False}:
        return "fp32", f"{regime} with {keys}"
    return ("unknown", f"{regime} where {switches or keys} is on") if switches or len(said) > 1 else None


def _left_switches(run: Run, items: Sequence[Declaration], left: Mapping[Declaration, Declaration]) -> str:
    """The keys that switch a region of the run on or off, where neither its line nor a known file says which."""
    told = {item: each for item, each in left.items() if item.regime and item.condition}
    keys: dict[str, None] = {}
    for condition in {item.condition: None for item in told}:
        given = strongest_switches(run, [item for item in items if item.condition == condition])
        if all(item.role == "option" for item in given):
            keys |= {item.key: None for item in told if item.condition == condition}
    return " and ".join(keys)


def _guessed_switches(project: Project, items: Iterable[Declaration]) -> tuple[str, frozenset[bool]]:
    """The keys of switches that only files say which a run is not seen to load, and whether regions are on with them.

    Nothing where one of the regions has another switch, one that something else of the run sets, or none.
    """
    told = {item.condition for item in items if item.feeds and item.regime}
    regions = [item for item in items if item.role == "compute" and item.regime and not item.feeds]
    found = [project.fact(_guessed).get((item.path, item.span), ("", frozenset[bool]())) for item in regions]
    if not all(said for _, said in found) or any(item.condition in told for item in regions):
        return "", frozenset()
    return " and ".join(dict.fromkeys(key for key, _ in found)), frozenset().union(*(said for _, said in found))


def _guessed(project: Project) -> Mapping[tuple[str, Span], tuple[str, frozenset[bool]]]:
    """The same of each region, by its place; a fallback is what counts where none of the files names the key."""
    found = {}
    for region in autocasts(project):
        switch = main_switch(project, region)
        asked = (region.module, switch.node) if switch is not None else made_if(project, region)
        opens = switch.opens if switch is not None else True
        given = truths(project, *asked) if asked is not None else ()
        told = [item for item in given if isinstance(item.value, bool) and item.kind != "fallback"]
        if told and all(item.kind == "entry" and not item.is_of_line for item in told):
            key = told[0].key.rpartition(".")[2]
            place = (region.module.path, region.module.document.span(region.node))
            found[place] = (key, frozenset(item.value is opens for item in told))
    return found


def passed_together(run: Run) -> Iterator[tuple[RunMember, Declaration]]:
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
