"""A model that one method of an object trains, and another casts to 16 bits and back: each evaluation rounds it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.python.arguments import receiver_of
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import function_of, loops
from ....codemod.source.project import Project


def held_model(module: ModuleNames, cast: ast.Call) -> str:
    """``self.model`` of ``self.model.half()``, or of a name that is it: ``model = self.model``; empty for others."""
    model = receiver_of(cast)
    if isinstance(model, ast.Name):
        values = [item.value for item in module.bindings_of(model)]
        others = [item for item in values if item is not None and not _is_cast_of(item, model.id)]
        model = others[0] if len(others) == 1 and None not in values else None
    text = ast.unparse(model) if isinstance(model, ast.Attribute) else ""
    return text if text.startswith("self.") and text.count(".") == 1 else ""


def stands_so(module: ModuleNames, cast: ast.Call) -> bool:
    """Whether nothing but its own name takes what a cast gives: ``model = model.half() if fast else model``."""
    node: ast.AST = cast
    parent = module.parents[node]
    if isinstance(parent, ast.IfExp) and parent.test is not node:
        node, parent = parent, module.parents[parent]
    name = ast.unparse(receiver_of(cast) or cast)
    targets = [ast.unparse(item) for item in parent.targets] if isinstance(parent, ast.Assign) else []
    return isinstance(parent, ast.Expr) or targets == [name]


def _is_cast_of(value: ast.expr, name: str) -> bool:
    parts = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    owners = (receiver_of(item) or item for item in parts)
    return all(isinstance(item, ast.Name) and item.id == name for item in owners)


def is_trained_between(project: Project, module: ModuleNames, cast: ast.Call) -> bool:
    """Whether the object steps the model's parameters, and one loop calls its training and the method of the cast."""
    text, method, owner = held_model(module, cast), function_of(module, cast), module.scope_of(cast).enclosing_class
    if not text or not isinstance(method, FunctionNode) or owner is None:
        return False
    own = [call for call in module.calls if module.scope_of(call).enclosing_class is owner]
    models = (item for call in own for item in models_of_optimizer(module, call, project))
    if not any(item is not None and ast.unparse(item) == text for item in models):
        return False
    passes = {function_of(module, call) for call in own if receiver_of(call, "backward") is not None} - {method}
    training = [call for function in passes for call in _sites(project, module, function)]
    inside = [call for call in own if receiver_of(call, "backward") is not None]
    around = {loop for call in (*training, *inside) for loop in loops(module, call)}
    return any(not around.isdisjoint(loops(module, call)) for call in _sites(project, module, method))


def _sites(project: Project, module: ModuleNames, function: ast.AST) -> Iterator[ast.Call]:
    """The calls of a method in its own file."""
    sites = callers_of(project, module, function).sites if isinstance(function, FunctionNode) else ()
    return (site.call for site in sites if site.module is module)
