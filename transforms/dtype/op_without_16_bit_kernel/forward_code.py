"""Whether code is part of a model's forward pass, which a region around the model's call covers."""

from __future__ import annotations

import ast

from ....codemod.flow.classes import ProjectClass, is_torch_module
from ....codemod.purpose.entered import regions_around
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames
from ....codemod.source.project import Project

MAX_STEPS = 2
"""How many callers up a plain function is looked for in a forward pass."""
_BEFORE_TRAINING = ("init", "reset", "load", "merge", "build", "export", "convert", "from_")
_OUTSIDE = ("loss", "losses", "criterion", "metric", "metrics", "eval", "optim", "optimizer", "visualize", "viz")
"""Words of files and classes whose code projects run outside of the region, or in float32, as often as not."""


def is_in_forward(project: Project, module: ModuleNames, node: ast.AST, steps: int = 0) -> bool:
    """Whether ``node`` runs inside an autocast region of its function, or in the forward pass of a module."""
    if next(regions_around(project, module, node), None) is not None:
        return True
    function = module.scope_of(node).function.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or _is_outside(module, node):
        return False
    owner = module.scope_of(function).enclosing_class
    if owner is not None:
        is_module = is_torch_module(project, ProjectClass(module, owner))
        return is_module and not any(word in function.name for word in _BEFORE_TRAINING)
    return steps < MAX_STEPS and _is_called_in_forward(project, module, function, steps)


def _is_called_in_forward(project: Project, module: ModuleNames, function: FunctionNode, steps: int) -> bool:
    sites = callers_of(project, module, function).sites
    return any(is_in_forward(project, site.module, site.call, steps + 1) for site in sites)


def _is_outside(module: ModuleNames, node: ast.AST) -> bool:
    owner = module.scope_of(node).enclosing_class
    names = [*module.document.path.removesuffix(".py").split("/")]
    names += [owner.node.name] if owner is not None and isinstance(owner.node, ast.ClassDef) else []
    words = {word for name in names for word in name.lower().split("_")}
    return not words.isdisjoint(_OUTSIDE) or any(name.endswith(("Loss", "Criterion", "Metric")) for name in names)
