"""Where an object is called after it was made: through variables, attributes of ``self``, parameters and returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

from ..python.callers import COMMON, callers_of
from ..python.creations import known_creations
from ..python.functions import FunctionTarget, called_function, class_of
from ..python.names import ModuleNames, attribute_chain, modules_with
from ..python.scopes import last_name
from ..source.project import Project
from .api import SAME_COMPUTATION, SAME_MODULE

MAX_STEPS = 60
MAX_DEPTH = 6


CalledAt: TypeAlias = "tuple[ModuleNames, ast.Call]"


def calls_of_object(project: Project, module: ModuleNames, birth: ast.expr) -> tuple[CalledAt, ...]:
    """Every call that is found of the object that ``birth`` makes (or names)."""
    return tuple(_Search(project).of(module, birth, 0))


class _Search:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._seen: set[ast.AST] = set()

    def of(self, module: ModuleNames, node: ast.expr, depth: int) -> Iterator[CalledAt]:
        """Follow one expression that has the object for its value."""
        if node in self._seen or len(self._seen) > MAX_STEPS or depth > MAX_DEPTH:
            return
        self._seen.add(node)
        whole, parent = _outermost(module, node)
        if isinstance(parent, ast.Call) and parent.func is whole:
            yield module, parent
        elif isinstance(parent, ast.Assign | ast.AnnAssign) and parent.value is whole:
            for target in parent.targets if isinstance(parent, ast.Assign) else [parent.target]:
                yield from self._stored(module, target, depth + 1)
        elif isinstance(parent, ast.Return):
            yield from self._returned(module, parent, depth + 1)
        else:
            yield from self._passed(module, whole, parent, depth + 1)

    def _stored(self, module: ModuleNames, target: ast.expr, depth: int) -> Iterator[CalledAt]:
        if isinstance(target, ast.Name):
            for load in module.name_loads.get(target.id, []):
                if module.scope_of(load).lookup(target.id) is module.bindings_of(target):
                    yield from self.of(module, load, depth)
            return
        chain = attribute_chain(target)
        owner = module.scope_of(target).enclosing_class
        if chain is None or len(chain) != 2 or chain[0] != "self" or owner is None:
            return
        for attribute in module.attribute_loads.get(chain[1], []):
            if attribute_chain(attribute) == chain and module.scope_of(attribute).enclosing_class is owner:
                yield from self.of(module, attribute, depth)

    def _returned(self, module: ModuleNames, node: ast.Return, depth: int) -> Iterator[CalledAt]:
        function = module.scope_of(node).function.node
        if isinstance(function, ast.FunctionDef):
            sites = [(site.module, site.call) for site in callers_of(self._project, module, function).sites]
            for other, call in sites or _calls_by_name(self._project, module, function):
                yield from self.of(other, call, depth)

    def _passed(self, module: ModuleNames, whole: ast.expr, parent: ast.AST | None, depth: int) -> Iterator[CalledAt]:
        call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
        if not isinstance(call, ast.Call):
            return
        target = called_function(self._project, module, call)
        name = target.parameter_for(call, whole) if target is not None else None
        if target is not None and name is not None:
            yield from self._parameter(target, name, depth)

    def _parameter(self, target: FunctionTarget, name: str, depth: int) -> Iterator[CalledAt]:
        for load in target.module.name_loads.get(name, []):
            if target.module.scope_of(load).lookup(name) is target.scope.bindings.get(name):
                yield from self.of(target.module, load, depth)


def _calls_by_name(project: Project, module: ModuleNames, method: ast.FunctionDef) -> Iterator[CalledAt]:
    """``self.setup.get_model()`` of an object that was passed, where one class of the project alone has the method."""
    if module.scope_of(method).enclosing_class is None or method.name in COMMON:
        return
    others = modules_with(project, (f"def {method.name}(",))
    defined = [item for other in others for item in other.of_type(ast.FunctionDef) if item.name == method.name]
    for other in modules_with(project, (f".{method.name}(",)) if defined == [method] else ():
        for call in other.calls_by_name.get(method.name, []):
            if called_function(project, other, call) is None and _may_be_ours(project, other, call.func):
                yield other, call


def _may_be_ours(project: Project, module: ModuleNames, method: ast.expr) -> bool:
    """Whether a method is of an object that no other library is known to make."""
    if not isinstance(method, ast.Attribute) or module.qualified(method) is not None:
        return False
    made_by = known_creations(project, module, method.value)
    return all(class_of(project, made.module, made.call.func) is not None for made in made_by)


def _outermost(module: ModuleNames, node: ast.expr) -> tuple[ast.expr, ast.AST | None]:
    """The expression around ``node`` that is the same object, or calls it: ``nn.BCELoss().to(device)``, a branch of a
    choice, ``DataParallel(net)``."""
    while True:
        parent = module.parents.get(node)
        above = module.parents.get(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and parent.attr in SAME_MODULE and isinstance(above, ast.Call):
            node = above
        elif isinstance(parent, ast.expr) and _gives(parent, node):
            node = parent
        else:
            return node, parent


def _gives(whole: ast.expr, part: ast.expr) -> bool:
    """Whether an expression gives one of its parts, or what computes as that does."""
    if isinstance(whole, ast.Call):
        return part in whole.args[:1] and last_name(whole.func) in SAME_COMPUTATION
    return isinstance(whole, ast.BoolOp) or (isinstance(whole, ast.IfExp) and part is not whole.test)
