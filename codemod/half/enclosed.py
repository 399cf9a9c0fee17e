"""Whether an autocast region can be open where code stands: to be imported by the same program is not enough."""

from __future__ import annotations

import ast

from ..flow.analysis import flow_of
from ..flow.classes import ProjectClass
from ..purpose.entered import way_inside
from ..purpose.runs import Run
from ..python.callers import callers_of
from ..python.names import FunctionNode, ModuleNames, Scope, names_of
from ..python.reach import Reached, reached
from ..source.project import Project
from .named_classes import is_named


def can_be_inside(project: Project, run: Run, module: ModuleNames, node: ast.AST) -> bool:
    """Whether code can run in the region of ``run``: models are handed to it, anything else its body has to call."""
    owner = module.scope_of(node).enclosing_class
    if owner is not None and flow_of(project).is_module(ProjectClass(module, owner)):
        named = module in run.starts or is_named(project, owner)
        return named and not _is_in_another_model(project, run, module, node)
    region = run.region
    if region is None or region.form != "with" or way_inside(project, module, node) is not None:
        return True
    function = module.scope_of(node).function.node
    return isinstance(function, FunctionNode) and _is_called_by_a_model(project, module, function)


def _is_in_another_model(project: Project, run: Run, module: ModuleNames, node: ast.AST) -> bool:
    """Whether the region stands in a model that neither uses the code's class nor is built where that is used."""
    region = run.region
    owner = region.module.scope_of(region.node).enclosing_class if region is not None else None
    if region is None or region.form != "with" or owner is None:
        return False
    if not flow_of(project).is_module(ProjectClass(region.module, owner)):
        return False
    return not project.memo(_built_with, (region.module, owner)).holds(module, node)


def _built_with(project: Project, asked: tuple[ModuleNames, Scope]) -> Reached:
    """What a class uses, and what the functions that build it use: they may hand parts to its constructor."""
    module, owner = asked
    name = getattr(owner.node, "name", "")
    starts: list[tuple[ModuleNames, ast.AST]] = [(module, owner.node)]
    for document in project.python_documents((name,)):
        other = names_of(project, document)
        starts += [(other, other.scope_of(load).function.node) for load in other.name_loads.get(name, [])]
        starts += [(other, other.scope_of(load).function.node) for load in other.attribute_loads.get(name, [])]
    return reached(project, starts)


def _is_called_by_a_model(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    for site in callers_of(project, module, function).sites:
        owner = site.module.scope_of(site.call).enclosing_class
        if owner is not None and flow_of(project).is_module(ProjectClass(site.module, owner)):
            return True
    return False
