"""From a framework's actions to the steps that a place still needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...source.project import Project
from ..framework import Action, FrameworkKey, by_machine
from ..reading.conditions import all_hold
from ..reading.scopes import FALSE, Setting, SettingScope


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """One change of a scope, with all choices made."""

    verb: str
    """``set`` and ``drop`` (of ``setting``), ``put`` (``key`` is absent), ``rename``."""
    key: FrameworkKey
    value: str = ""
    setting: Setting | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done in one place, and what cannot be done there."""

    steps: tuple[ChangeStep, ...]
    reports: tuple[str, ...]
    """What a person must do or know."""
    unknown: tuple[ChangeStep, ...] = ()
    """Steps for settings whose value is decided elsewhere, or by the machine where nothing can ask it."""

    def without(self, done: Iterable[ChangeStep]) -> Plan:
        """The plan less the steps that something else carries out."""
        made = tuple(done)
        steps, unknown = (tuple(step for step in each if step not in made) for each in (self.steps, self.unknown))
        return Plan(steps, self.reports, unknown)


def plan_of(project: Project, scope: SettingScope, actions: Iterable[Action]) -> Plan:
    """The steps that ``scope`` still needs; none when it says already what the actions want."""
    steps: list[ChangeStep] = []
    unknown: list[ChangeStep] = []
    reports: list[str] = []
    hidden: list[str] = []
    for action in actions:
        if action.conditions and all_hold(project, scope, action.conditions) is not True:
            continue
        if action.verb == "report":
            reports.append(action.value)
            continue
        key = scope.framework.key(action.key)
        if key is None:
            continue
        settings = scope.of(action.key)
        if by_machine(action.value) and scope.kind != "call":
            asked = [item for item in settings if key.meaning(item.value or "") not in (None, "fp32")]
            unknown += [ChangeStep("set", key, action.value, setting) for setting in asked]
            continue
        if action.verb in ("put", "add") and not settings:
            if key.is_switch and action.value == FALSE:
                continue
            if action.verb == "add" or not scope.is_open or _is_told_here(scope, key):
                steps.append(ChangeStep("put", key, action.value))
            elif key.means and scope.kind == "call" and action.value != FALSE:
                hidden.append(f"{action.key}={said(action.value)}")
        elif action.verb in ("set", "put", "add"):
            for setting in settings:
                _set(setting, action, steps, unknown)
        else:
            for setting in settings:
                if key.means and setting.value is None:
                    unknown.append(
                        ChangeStep("set", key, FALSE, setting)
                    )  # what it asks for may have to come elsewhere
                else:
                    steps.append(ChangeStep(action.verb, key, action.value, setting))
    if hidden and steps:
        # Half of a move would switch mixed precision off: what is passed by ** may hold the other half, or not.
        reports.append(f"keys may come from elsewhere here; make sure of {', '.join(hidden)}")
        steps, unknown = [], []
    return Plan(tuple(_once(steps)), tuple(dict.fromkeys(reports)), tuple(_once(unknown)))


def _is_told_here(scope: SettingScope, key: FrameworkKey) -> bool:
    """Whether a command line or a file already says such keys over what it stands on, so that one more belongs here."""
    says_such = any(setting.key.means for setting in scope.settings)
    return scope.kind in ("command", "file") and bool(key.means) and says_such


def _set(setting: Setting, action: Action, steps: list[ChangeStep], unknown: list[ChangeStep]) -> None:
    if setting.value is None:
        if setting.kind != "section":
            unknown.append(ChangeStep("set", setting.key, action.value, setting))
        return
    if action.only_from and not any(fnmatchcase(setting.value, known) for known in action.only_from):
        return
    wanted = action.value.removeprefix("torch.") if setting.kind == "dtype" else action.value
    if setting.value == wanted and not (setting.kind == "string" and action.value in ("true", "false")):
        return
    if setting.kind == "null" and action.value == "false":
        return
    steps.append(ChangeStep("set", setting.key, action.value, setting))


def _once(steps: list[ChangeStep]) -> list[ChangeStep]:
    """Of several steps for one setting the last one counts; a dropped setting is not set first."""
    last: dict[object, ChangeStep] = {}
    for step in steps:
        last[step.setting or (step.verb, step.key.name)] = step
    return list(last.values())


def said(value: str) -> str:
    """A step's value for people: of one that the machine decides, what is for which."""
    parts = by_machine(value)
    if not parts:
        return value
    elsewhere = f", {parts[2]} without a GPU" if parts[2] != parts[0] else ""
    return f"{parts[0]} where bfloat16 is native, else {parts[1]}{elsewhere}"


def in_words(steps: Iterable[ChangeStep]) -> str:
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
