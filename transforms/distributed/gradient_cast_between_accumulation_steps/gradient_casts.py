"""Assignments that give a gradient another dtype, and the places in training functions where they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.arguments import receiver_of
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames, last_name, modules_with
from ....codemod.python.paths import LoopNode, exclusive, function_of, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP32, TORCH_DTYPES, Dtype
from ....codemod.torch.weights import cast_dtype

SPELLINGS = (".grad =", ".grad=", ".grad.data =", ".grad.data=")
"""How a file that assigns a gradient spells it; a filter of texts only."""
BACKWARDS = ("backward", "manual_backward")


@dataclass(frozen=True, slots=True, eq=False)
class GradientCast:
    """``p.grad.data = p.grad.data.float()`` or ``p.grad = p.grad.float()``."""

    module: ModuleNames
    statement: ast.Assign
    parameter: str
    """The source of the expression whose gradient it is."""
    dtype: Dtype
    through_data: bool
    """Whether ``.grad.data`` is assigned, which autograd does not check."""


@dataclass(frozen=True, slots=True, eq=False)
class CastSite:
    """Where a training function casts its gradients: the assignment itself, or the call that leads to it."""

    cast: GradientCast
    module: ModuleNames
    node: ast.Assign | ast.Call
    function: ast.AST
    backward: ast.Call
    """The last backward pass before it in the same loop."""
    loop: LoopNode
    """The innermost loop that repeats both."""


def gradient_casts(project: Project) -> Iterator[GradientCast]:
    """Every assignment of a gradient cast to a dtype that is written down."""
    for module in modules_with(project, (".grad",), SPELLINGS):
        for node in module.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                owner, source = _owner(node.targets[0]), _owner(receiver_of(node.value))
                same = owner is not None and source is not None and ast.unparse(source) == ast.unparse(owner)
                dtype = _dtype(project, module, node.value) if same and isinstance(node.value, ast.Call) else None
                if owner is not None and dtype is not None:
                    through_data = last_name(node.targets[0]) == "data"
                    yield GradientCast(module, node, ast.unparse(owner), dtype, through_data)


def sites_of(project: Project, cast: GradientCast) -> Iterator[CastSite]:
    """The loops that run a backward pass and then this cast, directly or through one function of the project."""
    found = _site(cast, cast.module, cast.statement)
    function = function_of(cast.module, cast.statement)
    if found is not None:
        yield found
    elif isinstance(function, FunctionNode) and not _backwards(cast.module, function):
        sites = (_site(cast, caller.module, caller.call) for caller in callers_of(project, cast.module, function).sites)
        yield from (site for site in sites if site is not None)


def _owner(node: ast.expr | None) -> ast.expr | None:
    """``p`` of ``p.grad`` and ``p.grad.data``."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return node.value if isinstance(node, ast.Attribute) and node.attr == "grad" else None


def _dtype(project: Project, module: ModuleNames, call: ast.Call) -> Dtype | None:
    method = last_name(call.func)
    if method == "float" and not call.args and not call.keywords:
        return FP32
    if method == "type" and len(call.args) == 1:
        return TORCH_DTYPES.get(module.qualified(call.args[0]) or "")
    return cast_dtype(project, module, call)


def _site(cast: GradientCast, module: ModuleNames, node: ast.Assign | ast.Call) -> CastSite | None:
    function = function_of(module, node)
    for backward in reversed(_backwards(module, function)):
        loop = next((loop for loop in loops(module, node) if loop in loops(module, backward)), None)
        if loop is not None and position(backward) < position(node) and not exclusive(module, backward, node):
            return CastSite(cast, module, node, function, backward, loop)
    return None


def _backwards(module: ModuleNames, function: ast.AST) -> list[ast.Call]:
    named = (call for name in BACKWARDS for call in module.calls_inside.get((function, name), ()))
    return sorted((call for call in named if isinstance(call.func, ast.Attribute)), key=position)
