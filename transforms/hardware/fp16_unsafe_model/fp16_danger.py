"""A place where a model runs in a precision it does not stand, and the fix that fits the machine at hand."""

from __future__ import annotations

from ....codemod.model import Edit, Fix
from ....codemod.profiles.profile import Support
from ....codemod.source.project import Project
from ....codemod.trainers.reading.scopes import Scope
from ....codemod.trainers.writing.edits import change_of


def goes_to(project: Project) -> str | None:
    """``bf16`` or ``fp32``: where a run in float16 should go; None where float16 was asked for."""
    if project.target is not None:
        return {"bf16": "bf16", "fp32": "fp32"}.get(project.target.partition("-")[0])
    known = project.profile is not None and project.profile.support("bf16") is not Support.NATIVE
    return "fp32" if known else "bf16"


def other_precision(goal: str, edits: tuple[Edit, ...]) -> Fix:
    """The fix that moves a run to ``goal``."""
    said = {
        "bf16": "train in bfloat16, as the checkpoint was: needs a GPU that has it, and drops loss scaling",
        "fp32": "train in float32: about twice the memory for activations, and slower",
    }
    return Fix.unsafe(goal, said[goal], *edits)


def moved(project: Project, scope: Scope) -> Fix | None:
    """The fix that configures a trainer for another precision, as its table says."""
    goal = goes_to(project)
    target = {"bf16": "bf16-mixed", "fp32": "fp32"}.get(goal or "", "")
    change = change_of(project, scope, scope.framework.actions(target) or ())
    return other_precision(goal, change.edits) if goal is not None and change is not None else None
