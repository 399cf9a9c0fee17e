"""Declarations of one place that do not go together, by the tables of its framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...model import Applicability, Edit, EditRefused, Fix, Place
from ...purpose.files import purpose_of
from ...source.project import Project
from ..framework import Contradiction, by_machine
from ..reading.conditions import all_hold, settings_in
from ..reading.declarations import scopes_of
from ..reading.scopes import Scope, Setting, Step
from .steps import plan_of, said

_BY_SEVERITY = {
    "crash": Applicability.SAFE,
    "deprecated": Applicability.SAFE,
    "surprise": Applicability.UNSAFE,
    "ignored": Applicability.UNSAFE,
    "quality": Applicability.UNSAFE,
    "info": Applicability.DISPLAY_ONLY,
}


@dataclass(frozen=True, slots=True)
class Clash:
    """A contradiction that holds in one place."""

    scope: Scope
    contradiction: Contradiction
    settings: tuple[Setting, ...]
    """The declarations it is about; the first one is where it is reported."""
    edits: tuple[Edit, ...]
    """What mends it, where the regime of the place is known; empty: nothing is known or can be written."""
    done: str
    """What the edits do, in words."""
    applicability: Applicability

    @property
    def place(self) -> Place:
        return self.settings[0].place if self.settings else self.scope.place

    @property
    def message(self) -> str:
        return f"{self.contradiction.message} [{self.contradiction.id}]"

    def fixes(self, name: str) -> tuple[Fix, ...]:
        """The fix, if there is one."""
        return (Fix(name, self.done, self.applicability, self.edits),) if self.edits else ()


def clashes_of(project: Project, code: str) -> Iterator[Clash]:
    """The contradictions that the rule ``code`` reports, over the whole project."""
    for scope in scopes_of(project):
        if purpose_of(scope.path).is_foreign:
            continue
        for contradiction in scope.framework.contradictions:
            if contradiction.rule == code and all_hold(project, scope, contradiction.when) is True:
                yield _clash(project, scope, contradiction)


def _clash(project: Project, scope: Scope, contradiction: Contradiction) -> Clash:
    settings = tuple(settings_in(scope, contradiction.when))
    plan = plan_of(project, scope, contradiction.patch(project.target or scope.regime))
    edits: tuple[Edit, ...] = ()
    if plan.steps and not plan.reports and not plan.unknown and not _leads_away(project, scope, plan.steps):
        try:
            edits = scope.editor.edits(scope, plan.steps)
        except EditRefused:
            edits = ()
    applicability = (
        Applicability(contradiction.applicability)
        if contradiction.applicability
        else _BY_SEVERITY[contradiction.severity]
    )
    return Clash(scope, contradiction, settings, edits, in_words(plan.steps), applicability)


def _leads_away(project: Project, scope: Scope, steps: Iterable[Step]) -> bool:
    """Whether a step writes another value than the project's target wants there: the next round would take it back."""
    wanted = {
        action.key: action.value
        for action in scope.framework.actions(project.target or "") or ()
        if action.verb in ("set", "put", "add") and not by_machine(action.value)
        if not action.conditions or all_hold(project, scope, action.conditions) is True
    }
    return any(step.verb in ("set", "put") and wanted.get(step.key.name, step.value) != step.value for step in steps)


def in_words(steps: tuple[Step, ...]) -> str:
    """``sets gradient_precision to unmodified, removes loss_scale``."""
    words = []
    for step in steps:
        name = step.setting.name if step.setting is not None else step.key.name
        if step.verb == "drop":
            words.append(f"removes {name}")
        elif step.verb == "rename":
            words.append(f"renames {name} to {step.value}")
        elif step.verb == "put":
            words.append(f"adds {name}: {said(step.value)}")
        else:
            words.append(f"sets {name} to {said(step.value)}")
    return ", ".join(words)
