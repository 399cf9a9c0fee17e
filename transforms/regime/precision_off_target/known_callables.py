"""What is known of a callable: whether it is Python's own, wrapped, only holds values, or has all its code in sight."""

from __future__ import annotations

import ast
import sys

from ....codemod.python.bound import BUILTINS
from ....codemod.python.creations import creations_of
from ....codemod.python.functions import FunctionTarget, called_function, class_of, method_of
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from ....codemod.torch.entering_calls import sites_of

OF_PYTHON = (*sys.stdlib_module_names, "tqdm")
"""Packages whose functions of these names do what Python's do."""
OF_CLASSES = ("staticmethod", "classmethod", "property")


def is_of_python(module: ModuleNames, func: ast.expr, qualified: str) -> bool:
    """Whether it is a function of Python itself, not another one of its name."""
    if qualified:
        return qualified.partition(".")[0] in OF_PYTHON
    return isinstance(func, ast.Name) and func.id in BUILTINS and not module.bindings_of(func)


def is_replaced(target: FunctionTarget) -> bool:
    """Whether a decorator that nobody knows may put another function in its place."""
    for item in getattr(target.node, "decorator_list", ()):
        name = target.module.qualified(item.func if isinstance(item, ast.Call) else item) or ""
        if not name.startswith(("torch.", "functools.")) and last_name(item) not in OF_CLASSES:
            return True
    return False


def has_methods(owner: ast.AST) -> bool:
    """Whether a class may do anything with what it is given: it has functions, and is no module of layers."""
    is_module = any("Module" in ast.unparse(base) for base in getattr(owner, "bases", ()))
    return not is_module and any(isinstance(item, ast.FunctionDef) for item in getattr(owner, "body", ()))


def followed_call(project: Project, module: ModuleNames, call: ast.Call) -> FunctionTarget | None:
    """The project's function that a call reaches, also by an object that has a ``__call__``: ``scaler(loss)``."""
    return called_function(project, module, call) or project.memo(_called_object, (module, call))


def _called_object(project: Project, asked: tuple[ModuleNames, ast.Call]) -> FunctionTarget | None:
    """``__call__`` of all that a variable is known to be."""
    module, call = asked
    made = creations_of(project, module, call.func) if isinstance(call.func, ast.Name | ast.Attribute) else ()
    owners = [class_of(project, item.module, item.call.func) for item in made]
    found = {method_of(project, *owner, "__call__") if owner is not None else None for owner in owners}
    return found.pop() if len(found) == 1 else None


def returns_in_sight(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a call runs one function of the project for certain, so that its ``return`` says what it gives.

    Not a class, whose object holds what it is passed, and no method of which a class below may have its own.
    """
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    target = called_function(project, module, call)
    if target is None or target.node.name == "__init__" or is_replaced(target):
        return False
    if (name and len(module.scope_of(call).lookup(name)) != 1) or call not in project.memo(
        _sites, (target.module, target.node)
    ):
        return False
    owner = target.scope.enclosing_class.node if target.scope.enclosing_class is not None else None
    return not isinstance(owner, ast.ClassDef) or not project.memo(_has_heirs, (target.module, owner))


def _sites(project: Project, asked: tuple[ModuleNames, FunctionNode]) -> frozenset[ast.Call]:
    """The calls from which a function is followed back: not all, where there are many."""
    return frozenset(call for _, call in sites_of(project, *asked))


def _has_heirs(project: Project, asked: tuple[ModuleNames, ast.ClassDef]) -> bool:
    module, owner = asked
    others = (module, *modules_with(project, (owner.name,)))
    bases = ((item, base) for item in others for heir in item.of_type(ast.ClassDef) for base in heir.bases)
    return any((item.qualified(base) or last_name(base)).rpartition(".")[2] == owner.name for item, base in bases)
