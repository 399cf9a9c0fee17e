"""Which call of ``torch.set_default_dtype`` is in force where a model is made."""

from __future__ import annotations

import ast

from ..flow.classes import ProjectClass
from ..flow.parts import all_parts
from ..purpose.files import is_test
from ..python.callers import callers_of
from ..python.creations import Creation
from ..python.functions import class_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain, resolve
from ..python.paths import position
from ..source.project import Project

MAX_HOPS = 4
Setter = tuple[ModuleNames, ast.Call]


def setter_of(project: Project, made: Creation) -> Setter | None:
    """The call that gives a new model its dtype, where no layer in it asks for one."""
    owner = class_of(project, made.module, made.call.func)
    parts = all_parts(project, ProjectClass(*owner)) if owner is not None else ()
    inside = (item for part in parts for item in ast.walk(part.scope.node) if isinstance(item, ast.Call))
    layers = (item for item in inside if (attribute_chain(item.func) or [""])[-1][:1].isupper())
    if any("dtype" in (item.arg or "") for call in (made.call, *layers) for item in call.keywords):
        return None
    return setter_before(project, made.module, made.call)


def setter_before(project: Project, module: ModuleNames, node: ast.AST, hops: int = MAX_HOPS) -> Setter | None:
    """The call that last set the default dtype before ``node`` runs: in its function, its callers, or its file."""
    function = module.scope_of(node).function.node
    before = [call for call in _setters(project, module, function) if position(call) < position(node)]
    if before or not isinstance(function, FunctionNode):
        return (module, max(before, key=position)) if before else None
    sites = [site for site in callers_of(project, module, function).sites if not is_test(site.module.path)]
    found = {setter_before(project, site.module, site.call, hops - 1) for site in sites} if hops else set()
    above = found.pop() if len(found) == 1 else None
    of_file = _setters(project, module, module.tree) if not found else []
    return above or ((module, max(of_file, key=position)) if of_file else None)


def _setters(project: Project, module: ModuleNames, function: ast.AST) -> list[ast.Call]:
    return [
        call
        for call in module.calls_by_name.get("set_default_dtype", [])
        if call.args and module.scope_of(call).function.node is function
        if resolve(project, module, call.func) == "torch.set_default_dtype"
    ]
