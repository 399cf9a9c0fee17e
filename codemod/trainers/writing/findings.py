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
        evidence = [setting.place for setting in clash.settings]
        if not evidence or evidence == [clash.place]:
            evidence = []
        yield rule.finding(
            f"{clash.scope.framework.title}: {clash.message}",
            clash.place.path,
            clash.place.span,
            evidence=evidence,
            fixes=clash.fixes(FIX),
        )
