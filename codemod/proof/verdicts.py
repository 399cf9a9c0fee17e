"""How often rules were right on projects that nobody here had used: what was wrong too often edits nothing by itself.

The figures are those of docs/quality.md, sets B and C as first read; debatable findings count as not right.
docs/safety.md says which rules are left out, and why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..source.project import Project

__all__ = ["VERDICTS", "Trusted"]

VERDICTS: Mapping[str, tuple[int, int]] = {
    "PF203": (0, 6),
    "PF208": (2, 4),
    "PF211": (0, 7),
    "PF212": (1, 4),
}
"""Rules that were right in less than 0.8 of their findings: how many were right, and how many were judged."""


@dataclass(frozen=True, slots=True)
class Trusted:
    """The finding of a rule that was right often enough, or one of which nothing is a guess."""

    rule: str
    certain: bool = False
    """Whether it belongs to a kind of findings that were right often enough, whatever the others of the rule were."""

    def missing(self, project: Project) -> str:
        """Why the fix waits for a person where the rule was right too seldom."""
        if self.certain or self.rule not in VERDICTS:
            return ""
        return "the code may be right as it is, so read it first"
