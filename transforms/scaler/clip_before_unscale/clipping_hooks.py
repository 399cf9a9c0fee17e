"""Hooks of parameters that clip gradients: a backward pass of a scaled loss calls them with scaled gradients."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.names import FunctionNode, ModuleNames, parameters_of
from ....codemod.torch.scalers import Scaler

CLAMPS = ("torch.clamp", "torch.clip")
METHODS = ("clamp", "clamp_", "clip", "clip_")


def clipping_hooks(scaler: Scaler) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The hooks in the files that scale with ``scaler`` whose whole result is the clamped gradient."""
    for module in dict.fromkeys(use.module for use in scaler.uses_of("scale")):
        for call in module.calls_by_name.get("register_hook", []):
            if call.args and _clamps(module, call.args[0]):
                yield module, call


def _clamps(module: ModuleNames, hook: ast.expr) -> bool:
    function: ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | None
    if isinstance(hook, ast.Name):
        functions = [item.node for item in module.scope_of(hook).lookup(hook.id) if isinstance(item.node, FunctionNode)]
        last = functions[0].body[-1] if len(functions) == 1 else None
        result, function = (last.value if isinstance(last, ast.Return) else None), functions[0] if functions else None
    else:
        result, function = (hook.body, hook) if isinstance(hook, ast.Lambda) else (None, None)
    parameters = parameters_of(function) if function is not None else []
    if not parameters or not isinstance(result, ast.Call):
        return False
    method = result.func.value if isinstance(result.func, ast.Attribute) and result.func.attr in METHODS else None
    clamped = result.args[0] if module.qualified(result.func) in CLAMPS and result.args else method
    return isinstance(clamped, ast.Name) and clamped.id == parameters[0].arg
