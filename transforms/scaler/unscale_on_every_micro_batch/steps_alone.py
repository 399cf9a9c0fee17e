"""Steps that run in passes without a backward pass, behind ``zero_grad``: the optimizer has no gradient then."""

from __future__ import annotations

import ast

from ....codemod.python.arguments import owner_of
from ....codemod.python.functions import called_function
from ....codemod.python.paths import calls_of, exclusive, guard_facts, loop_names, loops, position
from ....codemod.releases.pins import excludes
from ....codemod.source.project import Project
from ....codemod.torch.clipping import calls_within
from ....codemod.torch.scaler_steps import ScalerStep
from ..passes import calls_named, leads_to_backward, plain_backwards
from .per_step_tests import changes_per_step

HIDING = ("escaped", "private", "bound-method", "method", "stored", "get_scale", "argument", "called")
"""Uses of a scaler behind which somebody else may scale or step."""
DROPS_GRADIENTS = "2.0"
"""From this release on ``zero_grad`` leaves None, not zeros."""


def backward_passes(project: Project, each: ScalerStep, step: ast.Call) -> list[ast.Call]:
    """What may give the optimizer of a step gradients in the pass of the step; empty where that is not known."""
    zeros = [call for call in calls_named(each, "zero_grad") if _sets_to_none(project, each, call, step)]
    if not zeros or hides_uses(each) or leads_to_backward(project, each):
        return []
    before = [call for call in zeros if position(call) < position(step)]
    found = [*each.of("scale"), *plain_backwards(each)]
    if before:
        found = [call for call in found if position(before[-1]) < position(call) < position(step)]
    return [call for call in found if not exclusive(each.module, call, step)]


def hides_uses(each: ScalerStep) -> bool:
    """Whether code that is not followed may use the scaler as well."""
    return any(use.kind in HIDING for use in each.uses)


def updates_by_calls(project: Project, each: ScalerStep) -> bool:
    """Whether a function that is called here updates the scaler as well."""
    others = {use.call for use in each.scaler.uses_of("update")}.difference(each.of("update"))
    targets = [called_function(project, each.module, call) for call in calls_of(each.module, each.function) if others]
    return any(call in others for item in targets if item is not None for _, call in calls_within(project, item))


def _sets_to_none(project: Project, each: ScalerStep, zero: ast.Call, step: ast.Call) -> bool:
    """Whether ``zero_grad`` of the optimizer runs in each pass in which it steps, and leaves no gradients of zeros."""
    module = each.module
    return (
        owner_of(zero) == each.text_of_optimizer(step)
        and not (zero.args or zero.keywords)
        and not excludes(project, "torch", DROPS_GRADIENTS, module.path)
        and bool(loops(module, step))
        and loops(module, zero) == loops(module, step)
        and guard_facts(module, zero) <= guard_facts(module, step)
    )


def asks_of_the_pass(project: Project, each: ScalerStep, test: ast.expr, call: ast.Call) -> bool:
    """Whether a test comes out differently from pass to pass: of the loss, of the number of the pass, and others."""
    names = {item.id for item in ast.walk(test) if isinstance(item, ast.Name)}
    scaled = {item.id for scale in each.of("scale") for item in scale.args if isinstance(item, ast.Name)}
    counted = {name for loop in loops(each.module, call) for name in loop_names(loop)}
    return bool(names & (scaled | counted)) or changes_per_step(project, each, test)
