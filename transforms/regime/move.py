"""One declaration that is not at the target, and the edits that take it there."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...codemod.model import Applicability, Edit, Finding, Fix, Place, Rule, Span

OVERRIDDEN = "configuration files give another value"


@dataclass(frozen=True, slots=True)
class Move:
    """A finding in the making: what is declared, where, why it counts, and what would be written."""

    path: str
    span: Span
    message: str
    effect: str = ""
    """What is written, and what changes for the run."""
    edits: tuple[Edit, ...] = ()
    """Empty: only reported."""
    evidence: tuple[Place, ...] = ()

    def only_reported(self, why: str) -> Move:
        """The same without its edits."""
        return replace(self, message=f"{self.message}; left to you: {why}", edits=())

    def finding(self, rule: Rule) -> Finding:
        """The finding; its fix is safe because this very change was asked for."""
        fixes = [Fix("move", self.effect, Applicability.SAFE, self.edits)] if self.edits else []
        return rule.finding(self.message, self.path, self.span, self.evidence, fixes)
