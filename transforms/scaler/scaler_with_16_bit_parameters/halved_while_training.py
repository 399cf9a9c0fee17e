"""``torch.save(model.half().state_dict())`` in the loop that trains: the cast changes the live model."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Set

from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.half.weight_changes import KEPT, cast_values
from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of, receiver_of
from ....codemod.python.callers import callers_of
from ....codemod.python.creations import Creation, creations_of
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import (
    LoopNode,
    calls_of,
    function_of,
    guard_facts,
    guards,
    loop_names,
    loops,
    name_parts,
    position,
)
from ....codemod.source.project import Project
from ....codemod.torch.api import CASTS
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.scaler_steps import steps_of
from ....codemod.torch.scalers import Scaler

LAST = {"last", "final"}
LEAVING = (ast.Break, ast.Return, ast.Raise)
MAX_CALLERS = 2
"""Calls between the loop over epochs and the scaler's step."""


def halved_while_training(project: Project, scaler: Scaler) -> Iterator[Draft]:
    """Casts of the model to float16, between two steps of its optimizer by the scaler."""
    for step in steps_of(scaler):
        for call in step.of("step")[:1]:
            optimizer = step.optimizer(call)
            made = creations_of(project, step.module, optimizer) if optimizer is not None else ()
            if len(made) != 1 or made[0].through:
                continue
            cast = next(_casts(project, made[0], step.module, call), None)
            if cast is not None:
                module, node, name = cast
                message = (
                    f"this casts the live {name} to float16, and training goes on: the next step raises 'Attempting to "
                    f"unscale FP16 gradients'; cast a copy of it, or of its state_dict"
                )
                places = [step.module.place(call, "the scaler steps the optimizer of these weights here")]
                yield Draft.at(module, node, message, places)


def _casts(
    project: Project, made: Creation, module: ModuleNames, step: ast.Call
) -> Iterator[tuple[ModuleNames, ast.Call, str]]:
    models = models_of_optimizer(made.module, made.call, project, of_any=True)
    names = {ast.unparse(model) for model in models if model is not None}
    for there, node in _ways_up(project, module, step, MAX_CALLERS):
        for loop in loops(there, node) if _has_names_of(made, there, node, names) else ():
            if not _binds(loop, names):
                yield from _in_loop(project, there, loop, names)


def _binds(node: ast.AST, names: Set[str]) -> bool:
    """Whether one of the names is given another value inside of a node."""
    stores = (item for item in ast.walk(node) if isinstance(getattr(item, "ctx", None), ast.Store))
    return any(ast.unparse(item) in names for item in stores)


def _ways_up(
    project: Project, module: ModuleNames, node: ast.Call, callers: int
) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """A call, and those of the functions that lead to it."""
    yield module, node
    function = function_of(module, node)
    sites = callers_of(project, module, function).sites if callers and isinstance(function, FunctionNode) else ()
    for site in sites if len(sites) == 1 else ():
        yield from _ways_up(project, site.module, site.call, callers - 1)


def _has_names_of(made: Creation, module: ModuleNames, node: ast.Call, names: Set[str]) -> bool:
    """Whether a function calls the models by the names by which the optimizer was given them."""
    if module is not made.module:
        return False
    owner = module.scope_of(made.call).enclosing_class
    of_object = owner is not None and owner is module.scope_of(node).enclosing_class
    same = function_of(module, node) is function_of(module, made.call)
    return bool(names) and (same or (of_object and all(name.startswith("self.") for name in names)))


def _in_loop(
    project: Project, module: ModuleNames, loop: LoopNode, names: Set[str]
) -> Iterator[tuple[ModuleNames, ast.Call, str]]:
    """The only cast of the models in a loop, there or in a function that it calls: a second one may cast back."""
    calls = [call for call in calls_of(module, function_of(module, loop)) if loop in module.ancestors(call)]
    found = [(call, module, call, owner_of(call)) for call in _casts_of(project, module, calls, names)]
    for call in calls:
        inner = _in_called(project, module, call, {name: name for name in names}, MAX_CALLERS)
        found += [(call, *each) for each in inner]
    for call, where, cast, name in found if len(found) == 1 else ():
        is_half = {item.value for item in cast_values(project, where, cast)} == {FP16}
        plain = cast is call or not guards(where, cast)
        if is_half and plain and _goes_on(module, loop, call) and is_reached(project, where, cast):
            yield where, cast, name


def _in_called(
    project: Project, module: ModuleNames, call: ast.Call, names: Mapping[str, str], hops: int
) -> Iterator[tuple[ModuleNames, ast.Call, str]]:
    """The casts in a function that is passed a model, or in a method of the object that holds it: ``self.save(step)``.

    ``names`` are those of the models where the call stands, with those in the loop.
    """
    target = called_function(project, module, call) if hops else None
    if target is None:
        return
    passed = {
        key: names[ast.unparse(value)] for key, value in target.arguments(call).items() if ast.unparse(value) in names
    }
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self":
        passed |= {name: known for name, known in names.items() if name.startswith("self.")}
    if not passed or _binds(target.node, passed.keys()):
        return
    inner = calls_of(target.module, target.node)
    for cast in _casts_of(project, target.module, inner, passed.keys()):
        yield target.module, cast, passed[owner_of(cast)]
    for each in inner:
        yield from _in_called(project, target.module, each, passed, hops - 1)


def _casts_of(project: Project, module: ModuleNames, calls: list[ast.Call], names: Set[str]) -> list[ast.Call]:
    """The calls that may give one of the models another dtype, all of them in place."""
    found = ((call, receiver_of(call, *CASTS)) for call in calls)
    own = (call for call, receiver in found if receiver is not None and ast.unparse(receiver) in names)
    return [call for call in own if cast_values(project, module, call) != KEPT]


def _goes_on(module: ModuleNames, loop: LoopNode, call: ast.Call) -> bool:
    """Whether another step follows the call: not in the last pass alone, and not on the way out."""
    counted = {name for around in (loop, *loops(module, call)) for name in loop_names(around)}
    known = guard_facts(module, loop)
    for guard in guards(module, call):
        asked = {item.id for item in ast.walk(guard.test) if isinstance(item, ast.Name)}
        if not set(guard.facts) <= known and (asked & counted or name_parts(guard.test) & LAST):
            return False
    leaving = (node for node in ast.walk(loop) if isinstance(node, LEAVING) and position(node) > position(call))
    return not any(guard_facts(module, node) <= guard_facts(module, call) for node in leaving)
