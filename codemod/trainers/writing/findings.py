"""The findings of rules whose knowledge lies in the frameworks' tables."""

from __future__ import annotations

from collections.abc import Iterator

from ...model import Finding, Rule
from ...source.project import Project
from .contradictions import clashes_of

FIX = "respell"


def findings_of(project: Project, rule: Rule) -> Iterator[Finding]:
    """One finding for each contradiction of the rule's code that holds in the project."""
    for clash in clashes_of(project, rule.code):
        places = [setting.place for setting in clash.settings]
        evidence = places if places != [clash.place] else []
        yield rule.found(
            clash.place.saying(f"{clash.scope.framework.title}: {clash.message}"), evidence, clash.fixes(project, FIX)
        )
