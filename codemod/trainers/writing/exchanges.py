"""A switch that replaces another one takes its place, with its comment: ``fp16: true`` becomes ``bf16: true``."""

from __future__ import annotations

from collections.abc import Sequence

from ..framework import Key
from ..reading.recognition import stands_at
from ..reading.scopes import FALSE, TRUE, Scope, Setting
from .steps import Step


def exchanged(scope: Scope, steps: Sequence[Step]) -> list[Step]:
    """``steps`` with a rename for every leading switch that goes out while another one is added, switched on."""
    left = list(steps)
    for added in [step for step in steps if step.setting is None and _is_leading(step.key)]:
        for gone in [step for step in left if _goes_out(step)]:
            name = _name(scope, added.key, gone.setting)
            if name and (added.value == TRUE or added.key.is_switch):
                left[left.index(gone)] = Step("rename", gone.key, name, gone.setting)
                left.remove(added)
                break
    return left


def _is_leading(key: Key) -> bool:
    return any(value == TRUE for value, _ in key.means)


def _goes_out(step: Step) -> bool:
    """Whether a step takes out a leading switch that is on, and nothing but its absence is needed for that."""
    off = step.verb == "drop" or (step.verb == "set" and step.value == FALSE)
    is_on = step.setting is not None and step.setting.value == TRUE and step.setting.kind == "bool"
    return off and is_on and _is_leading(step.key) and step.key.default in (None, FALSE)


def _name(scope: Scope, key: Key, setting: Setting | None) -> str:
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
