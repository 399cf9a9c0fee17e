"""Places that are not for one run alone to change: another model, machine or module may need them as they are."""

from __future__ import annotations

import ast
import re

from ...purpose.targets import compute_dtype
from ...python.paths import guards
from ...source.project import Project
from ...torch.dtypes import FP16
from ..reading.declarations import scopes_of
from ..reading.recognition import stands_inside
from ..reading.scopes import CodeOrigin, Scope

QUANTIZED_FOR_HALF = re.compile(r"(?i)(?!-)\S*((?<![a-z])(gptq|awq)(?![a-z])|\w-int[48]\b)")
"""In the name of a model: weights whose kernels take float16."""


def one_of_several(project: Project, scope: Scope) -> str:
    """Why a place is not for this run alone to change: other code, or another model, may need it as it is."""
    to_half = compute_dtype(project.target) == FP16
    if scope.command is not None and not to_half and any(map(QUANTIZED_FOR_HALF.match, scope.command.words)):
        return "GPTQ and AWQ models compute in float16"
    if scope.kind == "environment" and _is_an_exception(project, scope):
        return "a condition around it switches mixed precision off here"
    name = _given_name(project, scope)
    for other in scopes_of(project) if name else ():
        if other is scope or other.path != scope.path or other.title != scope.title:
            continue
        named = _given_name(project, other)
        if named and _stated(other) != _stated(scope):
            return f"{name} and {named} are there to choose from: choose where they are used"
    return ""


def _given_name(project: Project, scope: Scope) -> str:
    """The name that a module gives to what a call makes, for other modules or a branch to use; empty elsewhere."""
    call = scope.call
    if call is None or not isinstance(scope.origin, CodeOrigin):
        return ""
    module = scope.origin.module
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and statement.value is call else None
    if not isinstance(target, ast.Name) or module.scope_of(call) is not module.module_scope:
        return ""
    uses = module.name_loads.get(target.id, ())
    is_used = any(path != scope.path for path in project.python_paths((target.id,), (target.id,)))
    return target.id if (all(guards(module, node) for node in uses) if uses else is_used) else ""


def _is_an_exception(project: Project, scope: Scope) -> bool:
    """``if [ "$PLATFORM" = Darwin ]; then export MIXED_PRECISION=no; fi``: meant for some machines only."""
    document = project.document(scope.path)
    off = [setting for setting in scope.settings if setting.value and setting.key.meaning(setting.value) == "fp32"]
    return document is not None and any(stands_inside(document, setting.place.span.row) for setting in off)


def _stated(scope: Scope) -> list[tuple[str, str | None]]:
    return sorted((setting.key.name, setting.value) for setting in scope.settings)
