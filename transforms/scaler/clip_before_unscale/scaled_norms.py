"""Norms of gradients that are read while the gradients are scaled, for a log or a limit of the project's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.functions import called_function
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import calls_of
from ....codemod.source.project import Project
from ....codemod.torch.clipping import Clip, calls_within, clips_itself, is_gradient
from ....codemod.torch.scaler_steps import ScalerStep

NORMS = ("torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm")
CHECKS = ("isfinite", "isnan", "isinf")
"""What tells the same of a scaled norm."""


def norms_of(project: Project, step: ScalerStep) -> Iterator[Clip]:
    """The calls of a step's function that take the norm of a gradient for more than a test of inf and NaN."""
    for call in calls_of(step.module, step.function):
        target = called_function(project, step.module, call)
        inner = [*calls_within(project, target)] if target is not None else []
        reads = any(_is_norm(module, item) for module, item in inner)
        clips = any(_is_backward(item) or clips_itself(project, module, item) for module, item in inner)
        if (_is_norm(step.module, call) or (reads and not clips)) and not _only_checked(step.module, call):
            yield Clip(step.module, call, target)


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward"


def _is_norm(module: ModuleNames, call: ast.Call) -> bool:
    method = call.func.value if isinstance(call.func, ast.Attribute) and call.func.attr == "norm" else None
    measured = call.args[0] if module.qualified(call.func) in NORMS and call.args else method
    while isinstance(measured, ast.Call) and isinstance(measured.func, ast.Attribute) and not measured.args:
        measured = measured.func.value  # p.grad.detach().norm()
    return measured is not None and is_gradient(measured)


def _only_checked(module: ModuleNames, call: ast.Call) -> bool:
    """``norm = norm_of(model)``, then nothing but ``torch.isfinite(norm)``."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return isinstance(statement, ast.Expr) and statement.value is call
    scope = module.scope_of(target)
    reads = [node for node in module.name_loads.get(target.id, []) if module.scope_of(node) is scope]
    parents = [module.parents[node] for node in reads]
    return all(isinstance(item, ast.Call) and ast.unparse(item.func).rpartition(".")[2] in CHECKS for item in parents)
