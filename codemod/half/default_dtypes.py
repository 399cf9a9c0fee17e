"""Which call of ``torch.set_default_dtype`` is in force where a model is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..flow.classes import ProjectClass
from ..flow.parts import all_parts
from ..purpose.files import is_test
from ..python.callers import callers_of
from ..python.creations import Creation
from ..python.functions import called_function, class_of, method_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain, resolve
from ..python.paths import calls_of, position
from ..source.project import Project

MAX_HOPS = 4
MANAGERS = ("torchtune.training.set_default_dtype", "torchtune.utils.set_default_dtype")
"""Context managers of libraries that set the default dtype (torchtune 0.6.1)."""
Setter = tuple[ModuleNames, ast.Call]


def setter_of(project: Project, made: Creation) -> Setter | None:
    """The call that gives a new model its dtype, where no layer in it asks for one."""
    owner = class_of(project, made.module, made.call.func)
    parts = all_parts(project, ProjectClass(*owner)) if owner is not None else ()
    inside = (item for part in parts for item in ast.walk(part.scope.node) if isinstance(item, ast.Call))
    layers = (item for item in inside if (attribute_chain(item.func) or [""])[-1][:1].isupper())
    if any("dtype" in (item.arg or "") for call in (made.call, *layers) for item in call.keywords):
        return None
    return _entered(project, made.module, made.call) or setter_before(project, made.module, made.call)


def _entered(project: Project, module: ModuleNames, node: ast.AST) -> Setter | None:
    """The context manager around a node that sets the default dtype to its first argument, and back at its end."""
    blocks = (item for item in module.ancestors(node) if isinstance(item, ast.With))
    for item in (item for block in blocks for item in reversed(block.items)):
        call = item.context_expr
        if isinstance(call, ast.Call) and call.args and _sets_first(project, module, call):
            return module, call
    return None


def _sets_first(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    if resolve(project, module, call.func) in MANAGERS:
        return True
    owner = class_of(project, module, call.func)
    target = called_function(project, module, call)
    enters = method_of(project, *owner, "__enter__") if owner is not None else None
    if target is None or (owner is not None) != (enters is not None):
        return False
    given = next((name for name, value in target.arguments(call).items() if value is call.args[0]), "")
    kept = {f"self.{name}" for name, value in _stored(target.node) if value == given} if enters else {given}
    setting = enters or target
    set_to = [ast.unparse(item.args[0]) for item in _setters(project, setting.module, setting.node)]
    yields = [item for item in ast.walk(setting.node) if isinstance(item, ast.Yield)]
    return bool(set_to) and set_to[0] in kept and (enters is not None or bool(yields))


def _stored(function: ast.AST) -> Iterator[tuple[str, str]]:
    """The attributes of ``self`` and what they are given."""
    for item in ast.walk(function):
        target = item.targets[0] if isinstance(item, ast.Assign) and len(item.targets) == 1 else None
        if isinstance(item, ast.Assign) and isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self":
            yield target.attr, ast.unparse(item.value)


def setter_before(project: Project, module: ModuleNames, node: ast.AST, hops: int = MAX_HOPS) -> Setter | None:
    """The call that last set the default dtype before ``node`` runs: in its function, its callers, or its file."""
    function = module.scope_of(node).function.node
    before = [item for item in _settings(project, module, function, hops) if position(item[0]) < position(node)]
    if before or not isinstance(function, FunctionNode):
        return max(before, key=lambda item: position(item[0]))[1] if before else None
    sites = [site for site in callers_of(project, module, function).sites if not is_test(site.module.path)]
    found = {setter_before(project, site.module, site.call, hops - 1) for site in sites} if hops else set()
    above = found.pop() if len(found) == 1 else None
    of_file = _settings(project, module, module.tree, hops) if not found else []
    return above or (max(of_file, key=lambda item: position(item[0]))[1] if of_file else None)


def _settings(project: Project, module: ModuleNames, function: ast.AST, hops: int) -> list[tuple[ast.Call, Setter]]:
    """The calls of a function that set the default dtype, themselves or as their last word: ``setup(seed)``."""
    found = [(call, (module, call)) for call in _setters(project, module, function)]
    for call in calls_of(module, function) if hops and project.fact(_sets_any) else ():
        target = called_function(project, module, call)
        inside = _settings(project, target.module, target.node, hops - 1) if target is not None else []
        is_plain = target is not None and not any(isinstance(item, ast.Yield) for item in ast.walk(target.node))
        if inside and is_plain:
            found.append((call, max(inside, key=lambda item: position(item[0]))[1]))
    return found


def _sets_any(project: Project) -> bool:
    return any(True for _ in project.python_documents(("set_default_dtype",)))


def _setters(project: Project, module: ModuleNames, function: ast.AST) -> list[ast.Call]:
    return [
        call
        for call in module.calls_by_name.get("set_default_dtype", [])
        if call.args and module.scope_of(call).function.node is function
        if resolve(project, module, call.func) == "torch.set_default_dtype"
    ]
