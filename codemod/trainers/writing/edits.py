"""How a place that a trainer reads is rewritten, whatever it was read from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...model import Edit, EditRefused, Fix
from ...source.project import Project
from ..framework import Action, FrameworkKey
from ..reading.recognition import stands_at
from ..reading.scopes import FALSE, TRUE, Setting, SettingScope, TextOrigin
from .code_editing import code_edits
from .steps import ChangeStep, in_words, plan_of
from .text_editing import text_edits


def edits_of(project: Project, scope: SettingScope, steps: Sequence[ChangeStep]) -> tuple[Edit, ...]:
    """The edits that make all the steps. Raises EditRefused when one of them cannot be made."""
    steps = exchanged(scope, steps)
    if isinstance(scope.origin, TextOrigin):
        return text_edits(scope, scope.origin, steps)
    return code_edits(project, scope, scope.origin, steps)


@dataclass(frozen=True, slots=True)
class ScopeChange:
    """All of what some actions want of one place."""

    steps: tuple[ChangeStep, ...]
    edits: tuple[Edit, ...]
    done: str
    """What the edits do, in words."""

    def unsafe(self, name: str, because: str) -> Fix:
        """The change as an unsafe fix; ``because`` ends its message."""
        return Fix.unsafe(name, f"{self.done}{because}", *self.edits)


def change_of(project: Project, scope: SettingScope, actions: Iterable[Action]) -> ScopeChange | None:
    """What carries out all of ``actions`` in one place; None where nothing is left to do, or a part cannot be done."""
    plan = plan_of(project, scope, actions)
    if not plan.steps or plan.reports or plan.unknown:
        return None
    try:
        return ScopeChange(plan.steps, edits_of(project, scope, plan.steps), in_words(exchanged(scope, plan.steps)))
    except EditRefused:
        return None


def exchanged(scope: SettingScope, steps: Sequence[ChangeStep]) -> list[ChangeStep]:
    """``steps`` with a rename for every leading switch that goes out while another one is added, switched on."""
    left = list(steps)
    for added in [step for step in steps if step.setting is None and _is_leading(step.key)]:
        for gone in [step for step in left if _goes_out(step)]:
            name = _name(scope, added.key, gone.setting)
            if name and (added.value == TRUE or added.key.is_switch):
                left[left.index(gone)] = ChangeStep("rename", gone.key, name, gone.setting)
                left.remove(added)
                break
    return left


def _is_leading(key: FrameworkKey) -> bool:
    return any(value == TRUE for value, _ in key.means)


def _goes_out(step: ChangeStep) -> bool:
    """Whether a step takes out a leading switch that is on, and nothing but its absence is needed for that."""
    off = step.verb == "drop" or (step.verb == "set" and step.value == FALSE)
    is_on = step.setting is not None and step.setting.value == TRUE and step.setting.kind == "bool"
    return off and is_on and _is_leading(step.key) and step.key.default in (None, FALSE)


def _name(scope: SettingScope, key: FrameworkKey, setting: Setting | None) -> str:
    """What ``key`` is called at the place of ``setting``; empty where it cannot stand there."""
    if setting is None:
        return ""
    if scope.kind == "command":
        return key.flags[0] if key.flags and setting.name.startswith("-") else ""
    if scope.kind == "call":
        return key.arguments[0] if key.arguments and "." not in key.arguments[0] + setting.name else ""
    if scope.kind == "environment":
        return ""
    parent, dot, _ = setting.name.rpartition(".")
    for place in key.places:
        name = place.rpartition(".")[2]
        if not set("*{") & set(name) and any(stands_at(f"{parent}{dot}{name}", each) for each in key.places):
            return name
    return ""
