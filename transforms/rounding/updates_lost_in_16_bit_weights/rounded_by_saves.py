"""A model in training that is cast to 16 bits, to be saved or evaluated, and back: each time it is rounded."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.arguments import owner_of, receiver_of
from ....codemod.python.callers import callers_of
from ....codemod.python.exits import after
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames, checked_modules
from ....codemod.python.paths import calls_of, function_of, loops
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP32, HALVES
from ....codemod.torch.weights import cast_dtype
from .rounded_by_evaluations import is_trained_between, stands_so

MAX_CALLERS = 2
"""Calls between the loop that trains and the casts."""


def rounded_by_saves(project: Project) -> Iterator[Draft]:
    """``model.half()``, ``torch.save(...)``, ``model.float()`` in the loop that trains the model."""
    for module in checked_modules(project, (".half(", "float16")):
        for cast in (call for name in ("half", "to", "bfloat16") for call in module.calls_by_name.get(name, ())):
            model, dtype = receiver_of(cast), cast_dtype(project, module, cast)
            if dtype not in HALVES or not isinstance(model, ast.Name | ast.Attribute) or not stands_so(module, cast):
                continue
            saved = _is_trained(project, module, cast, ast.unparse(model))
            if not (saved or is_trained_between(project, module, cast)):
                continue
            below = list(_below(module, cast))
            back = next((call for call in below if _widens(project, module, call)), None)
            is_restored = any(receiver_of(call, "load_state_dict") is not None for call in below)
            if back is not None and not is_restored and is_reached(project, module, cast):
                name = ast.unparse(model)
                way_out = f"cast a copy of {name}.state_dict()" if saved else "evaluate a copy, or under autocast"
                message = (
                    f"{name} is cast to {dtype.name} and back while it is trained: its weights, which the optimizer"
                    f" steps, are rounded each time, and small updates are lost; {way_out}"
                )
                yield Draft.at(module, cast, message, (module.place(back, "the rounded weights are float32 again"),))


def _below(module: ModuleNames, cast: ast.Call) -> Iterator[ast.Call]:
    """The calls of methods of the same object that stand alone further down in the same block."""
    statement, name = module.statement_of(cast), ast.unparse(receiver_of(cast) or cast)
    for item in after(module.parents[statement], statement):
        call = item.value if isinstance(item, ast.Expr) else None
        receiver = receiver_of(call) if isinstance(call, ast.Call) else None
        if isinstance(call, ast.Call) and receiver is not None and ast.unparse(receiver) == name:
            yield call


def _widens(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    return receiver_of(call, "float") is not None or cast_dtype(project, module, call) == FP32


def _is_trained(project: Project, module: ModuleNames, node: ast.AST, name: str, hops: int = MAX_CALLERS) -> bool:
    """Whether a loop around a place, there or where its function is called, trains what has a name at the place."""
    if _is_optimized(project, module, node, name) and _trains_around(project, module, node, name):
        return True
    function = function_of(module, node)
    sites = callers_of(project, module, function).sites if hops and isinstance(function, FunctionNode) else ()
    for site in sites:
        passed = site.target.arguments(site.call).get(name)
        if passed is not None:
            found = _is_trained(project, site.module, site.call, ast.unparse(passed), hops - 1)
        elif owner_of(site.call) == "self":
            found = _is_trained(project, site.module, site.call, name, hops - 1)
        else:
            found = _is_optimized(project, module, node, name) and _trains_around(project, site.module, site.call, name)
        if found:
            return True
    return False


def _is_optimized(project: Project, module: ModuleNames, node: ast.AST, name: str) -> bool:
    """Whether an optimizer of the function, or of the class for what an object holds, is given its parameters."""
    owner = module.scope_of(node).enclosing_class
    holder = owner.node if owner is not None and name.startswith("self.") else function_of(module, node)
    return name in project.memo(_optimized, (module, holder))


def _optimized(project: Project, asked: tuple[ModuleNames, ast.AST]) -> frozenset[str]:
    """How what the optimizers of a function, or of a class, are given is called there."""
    module, holder = asked
    made = calls_of(module, holder)
    if isinstance(holder, ast.ClassDef):
        owners = ((call, module.scope_of(call).enclosing_class) for call in module.calls)
        made = [call for call, owner in owners if owner is not None and owner.node is holder]
    models = (item for call in made for item in models_of_optimizer(module, call, project))
    return frozenset(ast.unparse(item) for item in models if item is not None)


def _trains_around(project: Project, module: ModuleNames, node: ast.AST, name: str) -> bool:
    """Whether a loop around a place runs a backward pass: itself, or in a function with the model or of its object."""
    function, around = function_of(module, node), set(loops(module, node))
    passes = [*module.calls_inside.get((function, "backward"), ())]
    for call in calls_of(module, function) if around else ():
        target = called_function(project, module, call)
        if target is not None and _has_model(call, node, name):
            passes += [call] if target.module.calls_inside.get((target.node, "backward")) else []
    return any(not around.isdisjoint(loops(module, each)) for each in passes)


def _has_model(call: ast.Call, node: ast.AST, name: str) -> bool:
    """Whether a call is passed the model, or is one of the object that holds it: ``trainer.epoch()``."""
    given = (*call.args, *(item.value for item in call.keywords))
    owners = {owner_of(node)} if isinstance(node, ast.Call) else set()
    owners |= {"self"} if name.startswith("self.") else set()
    return any(ast.unparse(item) == name for item in given) or (owner_of(call) in owners and bool(owner_of(call)))
