"""``accelerator.backward(loss)`` in float16 before the step of an optimizer that was not prepared.

The Accelerator scales the loss; only the optimizers that ``prepare`` gives unscale, and so do ``unscale_gradients`` and
``clip_grad_norm_`` of the Accelerator, of these alone (accelerate 1.15.0).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Place
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import receiver_of
from ....codemod.python.creations import creations_of
from ....codemod.python.names import ModuleNames, checked_modules, modules_with
from ....codemod.python.paths import exclusive, function_of, position
from ....codemod.source.project import Project
from ..engines import float16_of_accelerate

MESSAGE = (
    "accelerate scales the loss in float16, and this optimizer was not prepared: it steps with gradients that are still"
    " multiplied by the loss scale, also where they are inf or NaN"
)


def steps_of_unprepared(project: Project) -> Iterator[Draft]:
    """Plain steps behind a backward pass of an Accelerator, where a stated run of it computes in float16."""
    for module in checked_modules(project, ("accelerat",), ("backward",), ("step",)):
        if "get_scale" in module.attribute_loads:
            continue  # unscaled by hand
        for backward in module.calls_by_name.get("backward", ()):
            steps = [call for call in module.calls_by_name.get("step", ()) if _follows(module, backward, call)]
            for step in steps if backward.args else ():
                made = _unprepared(project, module, step)
                stated = float16_of_accelerate(project, module, backward) if made is not None else None
                if made is not None and stated is not None and is_reached(project, module, step):
                    places = (module.place(backward, "the loss is scaled here"), made, stated)
                    yield Draft.at(module, step, MESSAGE, places)


def _follows(module: ModuleNames, backward: ast.Call, step: ast.Call) -> bool:
    same = function_of(module, backward) is function_of(module, step) and position(backward) < position(step)
    return same and not step.args and not exclusive(module, backward, step)


def _unprepared(project: Project, module: ModuleNames, step: ast.Call) -> Place | None:
    """Where the optimizer is made that takes a step, if torch makes it and no ``prepare`` may be given it."""
    optimizer = receiver_of(step)
    ways = creations_of(project, module, optimizer) if optimizer is not None else ()
    if len({way.call for way in ways}) != 1 or any(way.through for way in ways):
        return None
    made = ways[0]
    module_name, _, name = (made.module.qualified(made.call.func) or "").rpartition(".")
    of_torch = module_name in ("torch.optim", f"torch.optim.{name.lower()}")  # a schedule steps nothing
    if not of_torch or made.call in project.fact(_prepared) or None in project.fact(_prepared):
        return None
    return made.module.place(made.call, "the optimizer is made here")


def _prepared(project: Project) -> frozenset[ast.AST | None]:
    """The calls that make what ``prepare`` is given anywhere; None among them where it may be given anything."""
    found: set[ast.AST | None] = set()
    for module in modules_with(project, ("prepare", "prepare_optimizer")):
        for call in (*module.calls_by_name.get("prepare", ()), *module.calls_by_name.get("prepare_optimizer", ())):
            for given in call.args:
                ways = creations_of(project, module, given)
                found |= {way.call for way in ways} or {None}
    return frozenset(found)
