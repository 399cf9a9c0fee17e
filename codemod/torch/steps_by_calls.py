"""Training steps that reach a scaler by functions of the project: ``amp.backward(loss)``, ``amp.step(optimizer)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ..python.callers import callers_of
from ..python.functions import called_function
from ..python.names import FunctionNode, ModuleNames
from ..python.paths import calls_of, function_of, position
from ..source.project import Project
from .scaler import Scaler, Use, UseKind
from .scaler_steps import ScalerStep, passes_of

Roles = Mapping[ast.AST, UseKind]


def steps_by_calls(project: Project, scaler: Scaler) -> Iterator[ScalerStep]:
    """The functions that scale or step by calling functions that do, as steps in which these calls are the uses."""
    passes = list(passes_of(scaler))
    roles = {item.function: role for item in passes if (role := _role(item)) is not None}
    if not {"scale", "step"} & set(roles.values()):
        return
    direct = {item.function: item for item in passes}
    for module, function in _scaling_functions(project, passes, roles):
        own = direct[function].uses if function in direct else ()
        called = _called(project, module, function, roles)
        uses = sorted((*own, *called), key=lambda use: position(use.node))
        step = ScalerStep(scaler, module, function, tuple(uses))
        if called and step.of("scale") and step.of("step"):
            yield step


def _role(item: ScalerStep) -> UseKind | None:
    """What a call of the function does to the gradients; None where it does several things, or none."""
    if not isinstance(item.function, FunctionNode) or item.of("unscale_"):
        return None
    scales, steps = item.of("scale"), item.of("step")
    if bool(scales) is bool(steps):
        return None
    return "step" if steps else "scale" if _comes_out(item, scales) else None


def _comes_out(item: ScalerStep, scales: list[ast.Call]) -> bool:
    """Whether the scaled loss is followed by its backward pass, or returned."""
    ends: list[ast.AST] = [*item.module.calls_inside.get((item.function, "backward"), [])]
    ends += item.module.returns_of(item.function) if isinstance(item.function, FunctionNode) else []
    return any(scale in ast.walk(end) for end in ends for scale in scales)


def _scaling_functions(
    project: Project, passes: list[ScalerStep], roles: Roles
) -> dict[tuple[ModuleNames, ast.AST], None]:
    """The functions that scale, themselves or by a call, in the order of the scaler's uses."""
    found: dict[tuple[ModuleNames, ast.AST], None] = {}
    for item in passes:
        if item.of("scale"):
            found[item.module, item.function] = None
        if roles.get(item.function) == "scale" and isinstance(item.function, FunctionNode):
            for site in callers_of(project, item.module, item.function).sites:
                found[site.module, function_of(site.module, site.call)] = None
    return found


def _called(project: Project, module: ModuleNames, function: ast.AST, roles: Roles) -> list[Use]:
    """The calls of functions with a role; of methods those of one object."""
    found: list[Use] = []
    owners: set[str] = set()
    for call in calls_of(module, function):
        target = called_function(project, module, call)
        role = roles.get(target.node) if target is not None else None
        if role is not None and target is not None and target.node is not function:
            found.append(Use(role, module, call.func, call))
            owners.add(ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else "")
    return found if len(owners) == 1 else []
