"""Compiled kernels of an autograd Function that are given tensors of two dtypes under autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.frame import ASSUMED
from ....codemod.flow.lattice import Role
from ....codemod.purpose.entered import Inside, way_inside
from ....codemod.python.arguments import receiver_of
from ....codemod.python.functions import bases_of
from ....codemod.python.names import ModuleNames, resolve
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP32
from ..custom_functions import CustomFunction, applications, compares_dtypes, is_foreign


@dataclass(frozen=True, slots=True, eq=False)
class MixedKernel:
    """A call of a compiled kernel, and the tensors of two dtypes that an application gives it."""

    kernel: ast.Call
    module: ModuleNames
    """The file that applies the Function."""
    low: ast.expr
    full: ast.expr
    inside: Inside
    """How the application comes to run under autocast."""


def mixed_kernel(project: Project, function: CustomFunction) -> MixedKernel | None:
    """The first application under autocast that certainly gives one kernel a 16-bit and a float32 tensor."""
    kernels = list(_kernels(project, function))
    for module, node in applications(project, function) if kernels else ():
        call, caller = module.parents.get(node), module.scope_of(node).function.node
        if not isinstance(call, ast.Call) or call.func is not node or not _is_forward(project, module, caller):
            continue
        pair = _pair(project, function, kernels, module, call)
        inside = way_inside(project, module, call) if pair is not None else None
        if pair is not None and inside is not None:
            return MixedKernel(pair[0], module, pair[1], pair[2], inside)
    return None


def _pair(
    project: Project,
    function: CustomFunction,
    kernels: Sequence[tuple[ast.Call, list[str]]],
    module: ModuleNames,
    call: ast.Call,
) -> tuple[ast.Call, ast.expr, ast.expr] | None:
    """A kernel, and the 16-bit and the float32 argument that it is given by ``call``."""
    caller = module.scope_of(call).function.node
    if not isinstance(caller, ast.FunctionDef) or compares_dtypes(caller):
        return None
    values = flow_of(project).observed(module, caller, ASSUMED).record.values
    given = {item.arg: node for item, node in zip(function.inputs, call.args, strict=False)}
    for kernel, inputs in kernels:
        known = [(node, atom) for name in inputs if (node := given.get(name)) in values and (atom := values[node].only)]
        low = next((node for node, atom in known if atom.role is Role.AUTOCAST), None)
        full = next((node for node, atom in known if atom.dtype == FP32 or atom.role is Role.WEIGHTS), None)
        if low is not None and full is not None:
            return kernel, low, full
    return None


def _is_forward(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != "forward" or node.decorator_list:
        return False
    bases = bases_of(module.scopes[node].parent)
    return any(resolve(project, module, base) == "torch.nn.Module" for base in bases)


def _kernels(project: Project, function: CustomFunction) -> Iterator[tuple[ast.Call, list[str]]]:
    """The compiled functions that forward calls, and the inputs that it hands them as they came in."""
    inputs = {item.arg for item in function.inputs}
    scope = function.module.scopes[function.forward]
    raw = {name for name in inputs if len(scope.bindings.get(name, [])) == 1}
    for node in ast.walk(function.forward):
        if not isinstance(node, ast.Call) or isinstance(node.func, ast.Subscript):
            continue  # a Triton kernel reads each tensor in its own type
        if is_foreign(project, function.module, node):
            passed = [_name_of(item) for item in node.args]
            yield node, [name for name in passed if name in raw]


def _name_of(node: ast.expr) -> str:
    """``x`` of ``x`` and of ``x.contiguous()``."""
    return getattr(receiver_of(node, "contiguous") or node, "id", "")
