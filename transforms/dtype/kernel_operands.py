"""Compiled kernels of an autograd Function that are given tensors of two dtypes under autocast."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.python.names import ModuleNames, parameters_of, resolve
from ...codemod.source.project import Project
from .autocast_paths import Inside, PathFinder
from .custom_functions import CustomFunction
from .function_uses import applications, is_foreign
from .role_flow import follow
from .roles import FULL, LOW, UNKNOWN_ROLE, Value


@dataclass(frozen=True, slots=True, eq=False)
class MixedKernel:
    """A call of a compiled kernel, and the application that gives it two dtypes."""

    kernel: ast.Call
    module: ModuleNames
    application: ast.Call
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
        inside = project.fact(PathFinder).inside(module, call) if pair is not None else None
        if pair is not None and inside is not None:
            return MixedKernel(pair[0], module, call, pair[1], pair[2], inside)
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
    if not isinstance(caller, ast.FunctionDef) or any(compares_dtype(node) for node in ast.walk(caller)):
        return None
    names: dict[str, Value] = {item.arg: UNKNOWN_ROLE for item in parameters_of(caller)}
    roles = follow(project, module, caller, names, autocast=True).applied.get(call, ())
    given = {item.arg: (role, node) for item, role, node in zip(function.inputs, roles, call.args, strict=False)}
    for kernel, inputs in kernels:
        found = {given[name][0].kind: given[name][1] for name in inputs if name in given}
        if LOW in found and FULL in found:
            return kernel, found[LOW], found[FULL]
    return None


def compares_dtype(node: ast.AST) -> bool:
    """Whether a comparison reads a dtype."""
    inside = ast.walk(node) if isinstance(node, ast.Compare) else ()
    return any(isinstance(item, ast.Attribute) and item.attr == "dtype" for item in inside)


def _is_forward(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    if not isinstance(node, ast.FunctionDef) or node.name != "forward" or node.decorator_list:
        return False
    owner = module.scopes[node].parent
    bases = owner.node.bases if owner is not None and isinstance(owner.node, ast.ClassDef) else []
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
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contiguous":
        node = node.func.value
    return node.id if isinstance(node, ast.Name) else ""
