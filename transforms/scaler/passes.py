"""The backward passes of a function that uses a scaler, and what runs before what."""

from __future__ import annotations

import ast

from ...codemod.python.arguments import owner_of
from ...codemod.python.functions import called_function
from ...codemod.python.names import attribute_chain
from ...codemod.python.paths import calls_of, exclusive, position
from ...codemod.source.project import Project
from ...codemod.torch.clipping import calls_within
from ...codemod.torch.scaler_steps import ScalerStep


def calls_named(each: ScalerStep, name: str) -> list[ast.Call]:
    calls = each.module.calls_inside.get((each.function, name), [])
    return [call for call in calls if isinstance(call.func, ast.Attribute)]


def leads_to_backward(project: Project, each: ScalerStep) -> bool:
    """Whether a function that is called here may run a backward pass, or unscale, itself."""
    for call in calls_of(each.module, each.function):
        if call in each.of("unscale_"):
            continue
        name = (attribute_chain(call.func) or [""])[-1].lower()
        if ("backward" in name and (name != "backward" or call.args)) or "unscale" in name:
            return True
        target = called_function(project, each.module, call)
        inner = calls_within(project, target) if target is not None else ()
        if any(isinstance(item.func, ast.Attribute) and item.func.attr == "backward" for _, item in inner):
            return True
    return False


def leads_to(each: ScalerStep, first: ast.Call, second: ast.Call) -> bool:
    """Whether ``first`` runs before ``second`` in the same pass."""
    module = each.module
    return position(first) < position(second) and not exclusive(module, first, second)


def plain_backwards(each: ScalerStep) -> list[ast.Call]:
    """The backward passes of what is not scaled here, nor called scaled."""
    scales = each.of("scale")
    named = {
        ast.unparse(target)
        for scale in scales
        if isinstance(statement := each.module.statement_of(scale), ast.Assign)
        for target in statement.targets
    }
    return [
        call
        for call in calls_named(each, "backward")
        if set(scales).isdisjoint(ast.walk(call.func)) and owner_of(call) not in named
    ]
