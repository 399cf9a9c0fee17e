"""Whether a tensor is 16-bit in a function because what some call gives it is: of one that no region stands around."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..flow.analysis import flow_of
from ..flow.frame import ASSUMED
from ..flow.lattice import Kind
from ..purpose.files import is_test
from ..purpose.proved_reach import can_run, is_reached
from ..python.functions import FunctionTarget
from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from ..torch.entering_calls import sites_of
from .half_here import Half, half_here, is_told_apart


def half_as_given(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """``half_here`` for what a function makes of its arguments, by the first call whose arguments are 16-bit."""
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode) or function.decorator_list:
        return None
    if is_told_apart(project, module, node) or not can_run(project, module, node):
        return None
    for other, call in sites_of(project, module, function):
        half = _at(project, other, call, FunctionTarget(module, function, _is_method(module, function)), node)
        if half is not None and not is_test(other.path) and is_reached(project, other, call):
            return half
    return None


def _is_method(module: ModuleNames, function: FunctionNode) -> bool:
    return module.scopes[function].enclosing_class is not None


def _at(project: Project, module: ModuleNames, call: ast.Call, target: FunctionTarget, node: ast.expr) -> Half | None:
    flow, given = flow_of(project), target.arguments(call)
    halves = {name: half for name, item in given.items() if (half := half_here(project, module, item)) is not None}
    if not halves:
        return None
    names = {name: flow.value_at(module, given[name], ASSUMED) for name in halves}
    value = flow.with_names(target.module, target.node, names, ASSUMED).record.values.get(node)
    known = {(atom.dtype, atom.symbol): name for name, each in names.items() for atom in each.atoms}
    if value is None or value.kind is not Kind.TENSOR or not value.atoms:
        return None
    origins = {known.get((atom.dtype, atom.symbol)) for atom in value.atoms}
    if None in origins:
        return None
    half = next(half for name, half in halves.items() if name in origins)
    owner = target.module.scopes[target.node].enclosing_class
    applied = owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else target.node.name
    return replace(half, steps=(*half.steps, module.place(call, f"{applied} is applied to it here")))
