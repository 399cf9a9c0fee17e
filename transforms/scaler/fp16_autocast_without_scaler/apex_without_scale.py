"""apex in a level that computes in float16, and no ``amp.scale_loss`` in the project."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Place
from ....codemod.purpose.files import is_test
from ....codemod.purpose.given import is_run
from ....codemod.purpose.imports import imported_modules
from ....codemod.python.arguments import argument, hides_arguments, owner_of
from ....codemod.python.names import ModuleNames, modules_with
from ....codemod.python.paths import exclusive, function_of, position
from ....codemod.source.project import Project
from ....codemod.torch.unscaled_steps import names_scaling
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.source import GIVEN

SCALING = ("scale_loss", "caler", "FP16_Optimizer", "loss_scale", "get_scale")
"""Words of a project whose code may scale the loss in some way."""
LEVELS = ("O1", "O2")
MESSAGE = "apex computes in float16 and nothing calls `amp.scale_loss`: gradients below 6e-8 become zero"


def unscaled_apex(project: Project) -> Iterator[Draft]:
    """The first plain training step of each program that calls ``amp.initialize``."""
    if any(True for _ in project.python_documents(SCALING)):
        return
    for module in modules_with(project, ("apex",), ("initialize",)):
        for call in module.calls_by_name.get("initialize", ()) if not is_test(module.path) else ():
            stated = _stated(project, module, call)
            found = _unscaled(project, module) if stated is not None and is_run(project, module, call) else None
            if stated is not None and found is not None:
                other, backward, step = found
                places = (stated, other.place(step, "the optimizer steps here"))
                yield Draft.at(other, backward, MESSAGE, places)
                break


def _stated(project: Project, module: ModuleNames, call: ast.Call) -> Place | None:
    """What makes ``amp.initialize`` compute in float16; None where it may not."""
    if module.qualified(call.func) != "apex.amp.initialize" or hides_arguments(call):
        return None
    if argument(call, "enabled", position=2) is not None:
        return None
    level = argument(call, "opt_level", position=3)
    if level is None:
        return module.place(call, "apex computes in float16 here, by its default level O1")
    found = [item for item in sources(project, module, level) if not item.is_guessed]
    given = [item for item in found if item.kind in GIVEN] or found
    known = bool(given) and all(item.value in LEVELS for item in given)
    return given[0].place("the level computes in float16") if known else None


def _unscaled(project: Project, module: ModuleNames) -> tuple[ModuleNames, ast.Call, ast.Call] | None:
    for other in (module, *imported_modules(project, module)):
        for backward in other.calls_by_name.get("backward", ()) if not is_test(other.path) else ():
            step = _step_behind(other, backward)
            if step is not None and is_run(project, other, backward):
                return other, backward, step
    return None


def _step_behind(module: ModuleNames, backward: ast.Call) -> ast.Call | None:
    """The plain step of an optimizer behind ``loss.backward()``, in a function that scales nothing by hand."""
    function = function_of(module, backward)
    if backward.args or not owner_of(backward).isidentifier() or names_scaling(function):
        return None
    for step in module.calls_inside.get((function, "step"), ()):
        later = position(step) > position(backward) and not exclusive(module, step, backward)
        if later and not step.args and "opt" in owner_of(step).lower():
            return step
    return None
