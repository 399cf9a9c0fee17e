"""Whether an autocast region can be open where code stands: to be imported by the same program is not enough."""

from __future__ import annotations

import ast

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.classes import ProjectClass
from ...codemod.purpose.runs import Run
from ...codemod.python.callers import callers_of
from ...codemod.python.functions import called_function
from ...codemod.python.names import FunctionNode, ModuleNames
from ...codemod.python.reach import Reached, reached
from ...codemod.source.project import Project
from ...codemod.torch.autocast import Autocast
from .named_classes import is_named

MAX_CALLED = 60
"""Methods that are followed from the body of one region."""


def can_be_inside(project: Project, run: Run, module: ModuleNames, node: ast.AST) -> bool:
    """Whether code can run in the region of ``run``: models are handed to it, anything else its body has to call."""
    owner = module.scope_of(node).enclosing_class
    if owner is not None and flow_of(project).is_module(ProjectClass(module, owner)):
        return module in run.starts or is_named(project, owner)
    region = run.region
    if region is None or region.form != "with" or project.memo(_entered, region).holds(module, node):
        return True
    function = module.scope_of(node).function.node
    return isinstance(function, FunctionNode) and _is_called_by_a_model(project, module, function)


def _is_called_by_a_model(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    for site in callers_of(project, module, function).sites:
        owner = site.module.scope_of(site.call).enclosing_class
        if owner is not None and flow_of(project).is_module(ProjectClass(site.module, owner)):
            return True
    return False


def _entered(project: Project, region: Autocast) -> Reached:
    body = next((item for item in region.module.ancestors(region.node) if isinstance(item, ast.With)), region.node)
    waiting: list[tuple[ModuleNames, ast.AST]] = [(region.module, body)]
    found: dict[ast.AST, ModuleNames] = {}
    while waiting and len(found) < MAX_CALLED:
        module, part = waiting.pop()
        if part in found:
            continue
        found[part] = module
        for call in (item for item in ast.walk(part) if isinstance(item, ast.Call)):
            target = called_function(project, module, call)
            if target is not None:
                waiting.append((target.module, target.node))
    return reached(project, [(module, part) for part, module in found.items()])
