"""Training steps that reach a scaler by functions of the project: ``amp.backward(loss)``, ``amp.step(optimizer)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from ..python.arguments import owner_of
from ..python.callers import callers_of
from ..python.functions import called_function
from ..python.names import FunctionNode, ModuleNames, last_name
from ..python.paths import calls_of, exclusive, function_of, guards, name_parts, position
from ..python.precision_words import SCALING
from ..source.project import Project
from .clipping import calls_within
from .scaler import IDLE, Scaler, ScalerUse, UseKind
from .scaler_steps import ScalerStep, passes_of

UseKinds = Mapping[ast.AST, Sequence[UseKind]]
MAX_HOPS = 2
"""Calls between a scaled backward pass and the function that steps."""
ASKED = {*SCALING, "self", "use", "enabled", "grad"}
"""Parts of a test that asks whether there is a scaler at all."""


def steps_by_calls(project: Project, scaler: Scaler) -> Iterator[ScalerStep]:
    """The functions that scale or step by calling functions that do, as steps in which these calls are the uses."""
    passes = list(passes_of(scaler))
    roles: UseKinds = {item.function: (role,) for item in passes if (role := _role(item)) is not None}
    if not roles:
        return
    direct = {item.function: item for item in passes}
    for module, function in _scaling_functions(project, passes, roles):
        own = direct[function].uses if function in direct else ()
        called = _called(project, module, function, roles)
        uses = sorted((*own, *called), key=lambda use: position(use.node))
        step = ScalerStep(scaler, module, function, tuple(uses))
        if called and step.of("scale") and step.of("step"):
            yield step


def scaled_by_calls(project: Project, scaler: Scaler) -> Iterator[ScalerStep]:
    """The functions that have others scale and run the backward pass, where no call may step or unscale otherwise."""
    passes = list(passes_of(scaler))
    roles: dict[ast.AST, Sequence[UseKind]] = {item.function: (kind,) for item in passes if (kind := _role(item))}
    inside = {item.function: item.module for item in passes if "scale" in roles.get(item.function, ())}
    own = {use.call for use in scaler.uses if use.kind not in IDLE and use.call is not None}
    for _ in range(MAX_HOPS):
        around: dict[ast.AST, ModuleNames] = {}
        for function, module in inside.items():
            sites = callers_of(project, module, function).sites if isinstance(function, FunctionNode) else ()
            around |= {function_of(site.module, site.call): site.module for site in sites}
        inside = {}
        for function, module in around.items():
            uses = _called(project, module, function, roles)
            step = ScalerStep(scaler, module, function, tuple(sorted(uses, key=lambda use: position(use.node))))
            if function in roles or not step.of("scale") or _leads_elsewhere(project, step, own):
                continue
            yield step
            if not step.of("step"):
                roles[function], inside[function] = ("scale",), module


def _leads_elsewhere(project: Project, step: ScalerStep, own: Set[ast.Call | None]) -> bool:
    """Whether a call of the function, other than those with a role, may use the scaler, unscale or go back itself."""
    scales = step.of("scale")
    for call in calls_of(step.module, step.function):
        target = called_function(project, step.module, call)
        if call in step.of("scale", "step") or all(exclusive(step.module, call, scale) for scale in scales):
            continue
        inner = [call, *(item for _, item in calls_within(project, target))] if target is not None else [call]
        if any(item in own or _speaks_of_gradients(item) for item in inner):
            return True
    return False


def _speaks_of_gradients(call: ast.Call) -> bool:
    name = last_name(call.func).lower()
    return "unscale" in name or "backward" in name or name == "get_scale"


def unscaled_by_calls(project: Project, scaler: Scaler) -> Iterator[ScalerStep]:
    """The functions that unscale, step and update by calling functions that do one of it, or step and update."""
    roles = {item.function: kinds for item in passes_of(scaler) if (kinds := _kinds(item))}
    for function, module in _callers(project, roles, passes_of(scaler)).items():
        uses = _called(project, module, function, roles)
        step = ScalerStep(scaler, module, function, tuple(sorted(uses, key=lambda use: position(use.node))))
        if step.of("unscale_") and step.of("update"):
            yield step


def _kinds(item: ScalerStep) -> Sequence[UseKind]:
    """What a method does with the scaler, where that waits at most for there being one."""
    kinds = [use.kind for use in item.uses if use.kind != "none-test"]
    plain = isinstance(item.function, FunctionNode) and all(
        name_parts(guard.test) <= ASKED for use in item.uses for guard in guards(item.module, use.node)
    )
    return kinds if plain and kinds in (["unscale_"], ["step", "update"], ["update"]) else []


def _callers(project: Project, roles: UseKinds, passes: Iterable[ScalerStep]) -> dict[ast.AST, ModuleNames]:
    """The functions that call one that unscales, in the order of the scaler's uses."""
    return {
        function_of(site.module, site.call): site.module
        for item in passes
        if "unscale_" in roles.get(item.function, ()) and isinstance(item.function, FunctionNode)
        for site in callers_of(project, item.module, item.function).sites
    }


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
    project: Project, passes: list[ScalerStep], roles: UseKinds
) -> dict[tuple[ModuleNames, ast.AST], None]:
    """The functions that scale, themselves or by a call, in the order of the scaler's uses."""
    found: dict[tuple[ModuleNames, ast.AST], None] = {}
    for item in passes:
        if item.of("scale"):
            found[item.module, item.function] = None
        if "scale" in roles.get(item.function, ()) and isinstance(item.function, FunctionNode):
            for site in callers_of(project, item.module, item.function).sites:
                found[site.module, function_of(site.module, site.call)] = None
    return found


def _called(project: Project, module: ModuleNames, function: ast.AST, roles: UseKinds) -> list[ScalerUse]:
    """The calls of functions with a role; of methods those of one object."""
    found: list[ScalerUse] = []
    owners: set[str] = set()
    for call in calls_of(module, function):
        target = called_function(project, module, call)
        kinds = roles.get(target.node, ()) if target is not None else ()
        if kinds and target is not None and target.node is not function:
            found += [ScalerUse(kind, module, call.func, call) for kind in kinds]
            owners.add(owner_of(call))
    return found if len(owners) == 1 else []
