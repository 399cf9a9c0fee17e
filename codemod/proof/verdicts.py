"""How often rules were right on projects that nobody here had used: what was wrong too often edits nothing by itself.

The figures are those of docs/quality.md, sets B and C as first read; debatable findings count as not right.
docs/safety.md says which rules are left out, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..source.project import Project

ENOUGH = 0.8
"""The share of right findings from which on a rule's fixes may be called safe."""


@dataclass(frozen=True, slots=True)
class RuleRecord:
    """What somebody who had not written the rule said of its findings."""

    right: int
    judged: int

    @property
    def is_enough(self) -> bool:
        """Whether the rule may edit by itself."""
        return self.right >= ENOUGH * self.judged


VERDICTS: Mapping[str, RuleRecord] = {
    "PF203": RuleRecord(right=0, judged=6),
    "PF208": RuleRecord(right=2, judged=4),
    "PF211": RuleRecord(right=0, judged=7),
    "PF212": RuleRecord(right=1, judged=4),
}


@dataclass(frozen=True, slots=True)
class Trusted:
    """The finding of a rule that was right often enough, or one of which nothing is a guess."""

    rule: str
    certain: bool = False
    """Whether it belongs to a kind of findings that were right often enough, whatever the others of the rule were."""

    def missing(self, project: Project) -> str:
        """Why the fix waits for a person where the rule was right too seldom."""
        verdict = VERDICTS.get(self.rule)
        if self.certain or verdict is None or verdict.is_enough:
            return ""
        return "the code may be right as it is, so read it first"
