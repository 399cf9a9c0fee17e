"""The findings of rules whose knowledge lies in the frameworks' tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...model import Finding, Fix, Place, Rule
from ...source.project import Project
from ..reading.conditions import pins_in_conditions
from ..reading.shown_lines import lines_with
from .contradictions import Clash, clashes_of

FIX = "respell"
MAX_LINES = 40
"""Lines of one cause that are named."""


def findings_of(project: Project, rule: Rule) -> Iterator[Finding]:
    """One finding for each contradiction of the rule's code that holds in the project.

    Launch lines of one file that say the same make one, whose fix changes all of them.
    """
    groups: dict[object, list[tuple[Clash, tuple[Fix, ...]]]] = {}
    for clash in clashes_of(project, rule.code):
        fixes = clash.fixes(project, FIX)
        groups.setdefault(_cause(clash, fixes), []).append((clash, fixes))
    for found in groups.values():
        (clash, fixes), *others = found
        places = [setting.place for setting in clash.settings]
        evidence = places if places != [clash.place] else []
        evidence += [other.place for other, _ in others[: MAX_LINES - 1]]
        evidence += dict.fromkeys(pins_in_conditions(project, clash.scope, clash.contradiction.when))
        if clash.scope.kind == "command":
            evidence += _in_instructions(project, clash)
        every = f" ({len(found)} lines)" if others else ""
        message = f"{clash.scope.framework.title}: {clash.message}{every}"
        yield rule.found(clash.place.saying(message), evidence, _joined([fixes for _, fixes in found]))


def _cause(clash: Clash, fixes: Sequence[Fix]) -> object:
    """What launch lines of a file have in common that are one mistake; each other place is one of its own."""
    if clash.scope.kind != "command" or len(fixes) > 1:
        return id(clash)
    said = tuple((setting.name, setting.value) for setting in clash.settings)
    offered = tuple((fix.applicability, fix.message) for fix in fixes)
    return clash.scope.path, clash.contradiction.id, clash.scope.framework.id, said, offered


def _joined(found: Sequence[tuple[Fix, ...]]) -> tuple[Fix, ...]:
    edits = tuple(dict.fromkeys(edit for fixes in found for fix in fixes for edit in fix.edits))
    return tuple(replace(fix, edits=edits) for fix in found[0]) if len(found) > 1 else found[0]


def _in_instructions(project: Project, clash: Clash) -> Iterator[Place]:
    """The lines of read-mes that start the same program with the same words, which no fix changes."""
    document, span = project.document(clash.place.path), clash.place.span
    if document is None or span.row != span.end_row:
        return
    line = document.line(span.row)
    word = line[span.column - 1 : span.end_column - 1]
    scripts = {each for each in line.split() if each.endswith(".py")}
    for shown in lines_with(project, word, scripts)[:MAX_LINES]:
        yield shown.whole("instructions show the same")
