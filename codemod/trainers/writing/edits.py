"""How a place that a trainer reads is rewritten, whatever it was read from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...model import Edit, EditRefused, Fix
from ...source.project import Project
from ..framework import Action
from ..reading.scopes import Scope, TextOrigin
from .code_editing import code_edits
from .exchanges import exchanged
from .steps import Step, in_words, plan_of
from .text_editing import text_edits


def edits_of(project: Project, scope: Scope, steps: Sequence[Step]) -> tuple[Edit, ...]:
    """The edits that make all the steps. Raises EditRefused when one of them cannot be made."""
    steps = exchanged(scope, steps)
    if isinstance(scope.origin, TextOrigin):
        return text_edits(scope, scope.origin, steps)
    return code_edits(project, scope, scope.origin, steps)


@dataclass(frozen=True, slots=True)
class Change:
    """All of what some actions want of one place."""

    steps: tuple[Step, ...]
    edits: tuple[Edit, ...]
    done: str
    """What the edits do, in words."""

    def unsafe(self, name: str, because: str) -> Fix:
        """The change as an unsafe fix; ``because`` ends its message."""
        return Fix.unsafe(name, f"{self.done}{because}", *self.edits)


def change_of(project: Project, scope: Scope, actions: Iterable[Action]) -> Change | None:
    """What carries out all of ``actions`` in one place; None where nothing is left to do, or a part cannot be done."""
    plan = plan_of(project, scope, actions)
    if not plan.steps or plan.reports or plan.unknown:
        return None
    try:
        return Change(plan.steps, edits_of(project, scope, plan.steps), in_words(exchanged(scope, plan.steps)))
    except EditRefused:
        return None
