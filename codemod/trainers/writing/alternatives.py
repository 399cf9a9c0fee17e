"""Places that are not for one run alone to change: another model, machine or module may need them as they are."""

from __future__ import annotations

import re

from ...purpose.targets import compute_dtype
from ...source.project import Project
from ...torch.dtypes import FP16
from ..framework import FAMILIES
from ..reading.chosen_alternatives import choice_of, given_name
from ..reading.declarations import scopes_of
from ..reading.recognition import stands_inside
from ..reading.run_members import Run
from ..reading.runs import runs_with
from ..reading.scopes import SettingScope

QUANTIZED_FOR_HALF = re.compile(r"(?i)(?!-)\S*((?<![a-z])(gptq|awq)(?![a-z])|\w-int[48]\b)")
"""In the name of a model: weights whose kernels take float16."""

QUANTIZED_BY_BNB = re.compile(r"(?i)\S*(\bbnb\b|\b[48]bit\b)")
"""The same of weights that bitsandbytes has quantized."""


def one_of_several(project: Project, scope: SettingScope) -> str:
    """Why a place is not for this run alone to change: other code, or another model, may need it as it is."""
    to_half = compute_dtype(project.target) == FP16
    if scope.command is not None and not to_half and any(map(QUANTIZED_FOR_HALF.match, scope.command.words)):
        return "GPTQ and AWQ models compute in float16"
    if scope.kind == "environment" and _is_an_exception(project, scope):
        return "a condition around it switches mixed precision off here"
    name, choice = given_name(project, scope), choice_of(scope)
    for other in scopes_of(project) if name or choice is not None else ():
        if other is scope or other.path != scope.path or other.title != scope.title:
            continue
        if choice is not None and choice is choice_of(other) and _is_other_half(scope, other):
            return "a test beside it chooses the other 16-bit type: choose there"
        named = given_name(project, other) if name else ""
        if named and _stated(other) != _stated(scope):
            return f"{name} and {named} are there to choose from: choose where they are used"
    return ""


def chosen_in(project: Project, run: Run, scope: SettingScope) -> bool:
    """Whether switches choose in a run between a ready-made setting and one beside it, which then does not count."""
    beside = [item for item in run.members if (item.scope.path, item.scope.title) == (scope.path, scope.title)]
    picked = [item.scope for item in beside if item.is_picked]
    choice = choice_of(scope)
    if choice is None:
        return bool(given_name(project, scope)) and any(given_name(project, other) for other in picked)
    others = [item.scope for item in beside if choice_of(item.scope) is choice]
    return any(item in picked for item in others) and any(_is_other_half(scope, item) for item in others)


def is_chosen_by_switches(project: Project, scope: SettingScope) -> bool:
    """The same in each run that has a say of it."""
    runs = runs_with(project, scope)
    return bool(runs) and all(chosen_in(project, run, scope) for run in runs)


def _is_an_exception(project: Project, scope: SettingScope) -> bool:
    """``if [ "$PLATFORM" = Darwin ]; then export MIXED_PRECISION=no; fi``: meant for some machines only."""
    document = project.document(scope.path)
    off = [setting for setting in scope.settings if setting.value and setting.key.meaning(setting.value) == "fp32"]
    return document is not None and any(stands_inside(document, setting.place.span.row) for setting in off)


def _is_other_half(scope: SettingScope, other: SettingScope) -> bool:
    """Whether each of two places asks for a 16-bit type, and not for the same."""
    mine, theirs = ({FAMILIES[regime] for regime in item.regimes} - {"fp32"} for item in (scope, other))
    return bool(mine) and bool(theirs) and mine.isdisjoint(theirs)


def _stated(scope: SettingScope) -> list[tuple[str, str | None]]:
    return sorted((setting.key.name, setting.value) for setting in scope.settings)
