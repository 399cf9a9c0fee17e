"""Whether an autocast region can be open where code stands: to be imported by the same program is not enough."""

from __future__ import annotations

import ast

from ..flow.analysis import flow_of
from ..flow.classes import ProjectClass
from ..purpose.entered import way_inside
from ..purpose.runs import Run
from ..python.callers import callers_of
from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from .named_classes import is_named


def can_be_inside(project: Project, run: Run, module: ModuleNames, node: ast.AST) -> bool:
    """Whether code can run in the region of ``run``: models are handed to it, anything else its body has to call."""
    owner = module.scope_of(node).enclosing_class
    if owner is not None and flow_of(project).is_module(ProjectClass(module, owner)):
        return module in run.starts or is_named(project, owner)
    region = run.region
    if region is None or region.form != "with" or way_inside(project, module, node) is not None:
        return True
    function = module.scope_of(node).function.node
    return isinstance(function, FunctionNode) and _is_called_by_a_model(project, module, function)


def _is_called_by_a_model(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    for site in callers_of(project, module, function).sites:
        owner = site.module.scope_of(site.call).enclosing_class
        if owner is not None and flow_of(project).is_module(ProjectClass(site.module, owner)):
            return True
    return False
