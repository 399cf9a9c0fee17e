"""Methods of models that compute the loss of a training step: ``loss = model.get_loss(x)``, ``scaler.scale(loss)``.

A region in such a method is the training step's own, though it stands beside the model's layers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.purpose.entered import regions_around
from ....codemod.purpose.training import training_modules
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.scalers import scalers

OF_MODEL = "the model itself says in which dtype it computes its loss"


def computes_scaled_loss(project: Project, item: Autocast) -> bool:
    """Whether a region of a fixed dtype stands in a method whose result another file's training step scales.

    Not where that step enters a region itself: the model's is then chosen for what stands in it.
    """
    function = function_of(item.module, item.node)
    if item.dtype_node is None or item.module in training_modules(project) or not isinstance(function, FunctionNode):
        return False
    called = project.fact(_scaled).get(function.name, ())
    return function in called or None in called


def _scaled(project: Project) -> dict[str, list[ast.AST | None]]:
    """By the name of a method whose result is scaled, the methods that are called; None where that is not known."""
    found: dict[str, list[ast.AST | None]] = {}
    for module in dict.fromkeys(module for scaler in scalers(project) for module in scaler.modules):
        for call in module.calls_by_name.get("scale", ()):
            for made in _calls_behind(module, call.args[0]) if len(call.args) == 1 else ():
                if not any(True for _ in regions_around(project, module, made)):
                    target = called_function(project, module, made)
                    name = made.func.attr if isinstance(made.func, ast.Attribute) else ""
                    found.setdefault(name, []).append(target.node if target is not None else None)
    return found


def _calls_behind(module: ModuleNames, node: ast.expr) -> Iterator[ast.Call]:
    """The calls in an expression, and in what its variables are given."""
    for part in ast.walk(node):
        bindings = module.bindings_of(part)
        for value in (part, *(item.value for item in bindings if item.value is not None)):
            yield from (inner for inner in ast.walk(value) if isinstance(inner, ast.Call))
