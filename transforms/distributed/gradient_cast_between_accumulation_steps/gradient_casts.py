"""Assignments that give a gradient another dtype, and the places in training functions where they run."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.callers import callers_of
from ....codemod.python.names import ModuleNames, modules_with
from ....codemod.python.paths import exclusive, function_of, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import TORCH_DTYPES, Dtype
from ....codemod.torch.weights import cast_dtype

SPELLINGS = (".grad =", ".grad=", ".grad.data =", ".grad.data=")
"""How a file that assigns a gradient spells it; a filter of texts only."""
BACKWARDS = ("backward", "manual_backward")


@dataclass(frozen=True, slots=True, eq=False)
class GradientCast:
    """``p.grad.data = p.grad.data.float()`` or ``p.grad = p.grad.float()``."""

    module: ModuleNames
    statement: ast.Assign
    dtype: Dtype
    through_data: bool
    """Whether ``.grad.data`` is assigned, which autograd does not check."""

    @property
    def parameter(self) -> str:
        """The source of the expression whose gradient it is."""
        return ast.unparse(_owner(self.statement.targets[0]) or self.statement)


@dataclass(frozen=True, slots=True, eq=False)
class CastSite:
    """Where a training function casts its gradients: the assignment itself, or the call that leads to it."""

    cast: GradientCast
    module: ModuleNames
    node: ast.Assign | ast.Call
    function: ast.AST
    backward: ast.Call
    """The last backward pass before it in the same loop."""
    loop: ast.For | ast.AsyncFor | ast.While
    """The innermost loop that repeats both."""


def gradient_casts(project: Project) -> Iterator[GradientCast]:
    """Every assignment of a gradient cast to a dtype that is written down."""
    for module in modules_with(project, (".grad",), SPELLINGS):
        for node in module.nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                cast = _cast(project, module, node)
                if cast is not None:
                    yield cast


def sites_of(project: Project, cast: GradientCast) -> Iterator[CastSite]:
    """The loops that run a backward pass and then this cast, directly or through one function of the project."""
    found = _site(cast, cast.module, cast.statement)
    if found is not None:
        yield found
        return
    function = function_of(cast.module, cast.statement)
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or _runs_backward(cast.module, function):
        return
    for caller in callers_of(project, cast.module, function).sites:
        reached = _site(cast, caller.module, caller.call)
        if reached is not None:
            yield reached


def _cast(project: Project, module: ModuleNames, node: ast.Assign) -> GradientCast | None:
    target = node.targets[0]
    owner = _owner(target)
    if owner is None or not isinstance(node.value, ast.Call) or not isinstance(node.value.func, ast.Attribute):
        return None
    source = _owner(node.value.func.value)
    if source is None or ast.unparse(source) != ast.unparse(owner):
        return None
    dtype = _dtype(project, module, node.value)
    through_data = isinstance(target, ast.Attribute) and target.attr == "data"
    return GradientCast(module, node, dtype, through_data) if dtype is not None else None


def _owner(node: ast.expr) -> ast.expr | None:
    """``p`` of ``p.grad`` and ``p.grad.data``."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return node.value if isinstance(node, ast.Attribute) and node.attr == "grad" else None


def _dtype(project: Project, module: ModuleNames, call: ast.Call) -> Dtype | None:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method == "float" and not call.args and not call.keywords:
        return TORCH_DTYPES["torch.float32"]
    if method == "type" and len(call.args) == 1:
        return TORCH_DTYPES.get(module.qualified(call.args[0]) or "")
    return cast_dtype(project, module, call)


def _site(cast: GradientCast, module: ModuleNames, node: ast.Assign | ast.Call) -> CastSite | None:
    function = function_of(module, node)
    around = loops(module, node)
    before = [
        (call, loop)
        for call in _backwards(module, function)
        for loop in [_shared_loop(module, call, around)]
        if loop is not None and position(call) < position(node) and not exclusive(module, call, node)
    ]
    if not before:
        return None
    backward, loop = before[-1]
    return CastSite(cast, module, node, function, backward, loop)


def _shared_loop(
    module: ModuleNames, call: ast.Call, around: tuple[ast.For | ast.AsyncFor | ast.While, ...]
) -> ast.For | ast.AsyncFor | ast.While | None:
    mine = loops(module, call)
    return next((loop for loop in around if loop in mine), None)


def _runs_backward(module: ModuleNames, function: ast.AST) -> bool:
    return bool(_backwards(module, function))


def _backwards(module: ModuleNames, function: ast.AST) -> list[ast.Call]:
    named = (call for name in BACKWARDS for call in module.calls_by_name.get(name, []))
    found = [call for call in named if isinstance(call.func, ast.Attribute) and function_of(module, call) is function]
    return sorted(found, key=position)
