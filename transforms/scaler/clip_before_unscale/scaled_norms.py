"""Norms of gradients that are read while the gradients are scaled, for a log or a limit of the project's own.

And hooks of parameters that clip gradients: a backward pass of a scaled loss calls them with scaled gradients.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.arguments import argument, receiver_of
from ....codemod.python.functions import called_function
from ....codemod.python.names import FunctionNode, ModuleNames, last_name, parameters_of
from ....codemod.python.numbers import number_of
from ....codemod.python.paths import calls_of
from ....codemod.source.project import Project
from ....codemod.torch.clipping import Clip, calls_within, clips_itself, owner_of_gradient
from ....codemod.torch.scaler_steps import ScalerStep
from ....codemod.torch.scalers import Scaler

CLAMPS = ("torch.clamp", "torch.clip")
METHODS = ("clamp", "clamp_", "clip", "clip_")

NORMS = ("torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm")
CHECKS = ("isfinite", "isnan", "isinf")
"""What tells the same of a scaled norm."""
LOGS = ("print", "debug", "info", "warning")
NORM_CLIPS = ("clip_grad_norm_", "clip_grad_norm")
INFINITIES = ("math.inf", "torch.inf", "numpy.inf")
UNREACHED = 1e8
"""Gradients with a larger norm, scaled by 65536, are those of a run that diverges."""


def norms_of(project: Project, step: ScalerStep) -> Iterator[Clip]:
    """The calls of a step's function that take the norm of a gradient for more than a test of inf and NaN."""
    for call in calls_of(step.module, step.function):
        target = called_function(project, step.module, call)
        inner = [*calls_within(project, target)] if target is not None else []
        reads = any(_is_norm(module, item) for module, item in inner)
        clips = any(receiver_of(item, "backward") or clips_itself(project, module, item) for module, item in inner)
        if (_is_norm(step.module, call) or (reads and not clips)) and not _only_checked(step.module, call):
            yield Clip(step.module, call, target)


def _is_norm(module: ModuleNames, call: ast.Call) -> bool:
    method = receiver_of(call, "norm")
    measured = call.args[0] if module.qualified(call.func) in NORMS and call.args else method
    while isinstance(measured, ast.Call) and isinstance(measured.func, ast.Attribute) and not measured.args:
        measured = measured.func.value  # p.grad.detach().norm()
    return owner_of_gradient(measured) is not None


def measures_only(project: Project, clip: Clip) -> bool:
    """``clip_grad_norm_(parameters, 1e9)``: no norm that a step gets by with is larger, so nothing is clipped."""
    given = argument(clip.call, "max_norm", position=1)
    is_norm = last_name(clip.call.func) in NORM_CLIPS and clip.inside is None
    if not is_norm or given is None:
        return False
    limit = number_of(project, clip.module, given)
    return (limit is not None and limit >= UNREACHED) or clip.module.qualified(given) in INFINITIES


def is_only_logged(module: ModuleNames, call: ast.Call) -> bool:
    """Whether nothing reads a norm but tests of inf and NaN, and lines of a log."""
    return _is_logged(module, call) or _only_checked(module, call, logs=True)


def _only_checked(module: ModuleNames, call: ast.Call, *, logs: bool = False) -> bool:
    """``norm = norm_of(model)``, then nothing but ``torch.isfinite(norm)``."""
    statement = module.statement_of(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return isinstance(statement, ast.Expr) and statement.value is call
    scope = module.scope_of(target)
    reads = [node for node in module.name_loads.get(target.id, []) if module.scope_of(node) is scope]
    left = [module.parents[node] for node in reads if not (logs and _is_logged(module, node))]
    return all(isinstance(item, ast.Call) and ast.unparse(item.func).rpartition(".")[2] in CHECKS for item in left)


def _is_logged(module: ModuleNames, node: ast.expr) -> bool:
    statement = module.statement_of(node)
    value = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(value, ast.Call) and value is not node and last_name(value.func) in LOGS


def clipping_hooks(scaler: Scaler) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The hooks in the files that scale with ``scaler`` whose whole result is the clamped gradient."""
    for module in dict.fromkeys(use.module for use in scaler.uses_of("scale")):
        for call in module.calls_by_name.get("register_hook", []):
            if call.args and _clamps(module, call.args[0]):
                yield module, call


def _clamps(module: ModuleNames, hook: ast.expr) -> bool:
    function: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | None
    if isinstance(hook, ast.Name):
        functions = [item.node for item in module.bindings_of(hook) if isinstance(item.node, FunctionNode)]
        last = functions[0].body[-1] if len(functions) == 1 else None
        result, function = (last.value if isinstance(last, ast.Return) else None), functions[0] if functions else None
    else:
        result, function = (hook.body, hook) if isinstance(hook, ast.Lambda) else (None, None)
    parameters = parameters_of(function) if function is not None else []
    if not parameters or not isinstance(result, ast.Call):
        return False
    method = receiver_of(result, *METHODS)
    clamped = result.args[0] if module.qualified(result.func) in CLAMPS and result.args else method
    return isinstance(clamped, ast.Name) and clamped.id == parameters[0].arg
