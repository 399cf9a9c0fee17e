"""Places that are not for one run alone to change: another model, machine or module may need them as they are."""

from __future__ import annotations

import re

from ...purpose.targets import compute_dtype
from ...source.project import Project
from ...torch.dtypes import FP16
from ..reading.chosen_alternatives import given_name
from ..reading.declarations import scopes_of
from ..reading.recognition import stands_inside
from ..reading.run_members import Run
from ..reading.runs import runs_with
from ..reading.scopes import Scope

QUANTIZED_FOR_HALF = re.compile(r"(?i)(?!-)\S*((?<![a-z])(gptq|awq)(?![a-z])|\w-int[48]\b)")
"""In the name of a model: weights whose kernels take float16."""


def one_of_several(project: Project, scope: Scope) -> str:
    """Why a place is not for this run alone to change: other code, or another model, may need it as it is."""
    to_half = compute_dtype(project.target) == FP16
    if scope.command is not None and not to_half and any(map(QUANTIZED_FOR_HALF.match, scope.command.words)):
        return "GPTQ and AWQ models compute in float16"
    if scope.kind == "environment" and _is_an_exception(project, scope):
        return "a condition around it switches mixed precision off here"
    name = given_name(project, scope)
    for other in scopes_of(project) if name else ():
        if other is scope or other.path != scope.path or other.title != scope.title:
            continue
        named = given_name(project, other)
        if named and _stated(other) != _stated(scope):
            return f"{name} and {named} are there to choose from: choose where they are used"
    return ""


def chosen_in(project: Project, run: Run, scope: Scope) -> bool:
    """Whether switches choose in a run between a ready-made setting and one beside it, which then does not count."""
    others = (member for member in run.members if member.is_picked and member.scope.title == scope.title)
    beside = (member.scope for member in others if member.scope.path == scope.path)
    return bool(given_name(project, scope)) and any(given_name(project, other) for other in beside)


def is_chosen_by_switches(project: Project, scope: Scope) -> bool:
    """The same in each run that has a say of it."""
    runs = runs_with(project, scope)
    return bool(runs) and all(chosen_in(project, run, scope) for run in runs)


def _is_an_exception(project: Project, scope: Scope) -> bool:
    """``if [ "$PLATFORM" = Darwin ]; then export MIXED_PRECISION=no; fi``: meant for some machines only."""
    document = project.document(scope.path)
    off = [setting for setting in scope.settings if setting.value and setting.key.meaning(setting.value) == "fp32"]
    return document is not None and any(stands_inside(document, setting.place.span.row) for setting in off)


def _stated(scope: Scope) -> list[tuple[str, str | None]]:
    return sorted((setting.key.name, setting.value) for setting in scope.settings)
