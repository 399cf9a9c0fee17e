"""Functions and methods of the project that may cast a model, or give it new weights."""

from __future__ import annotations

import ast

from ..python.arguments import owner_of
from ..python.creations import Creation
from ..python.functions import called_function, class_of, method_of
from ..python.names import FunctionNode, ModuleNames, attribute_chain
from ..source.project import Project
from ..torch.weight_changes import may_change_back
from ..trainers.reading.trained_loads import COMPOUND, Mention, mentions
from .built_half import FROZEN
from .casts_of_each import applied_cast

MAX_METHODS = 2
"""Methods that a method of a model calls, one below the other."""


def recasts_inside(project: Project, mention: Mention, made: Creation, call: ast.Call) -> bool:
    """Whether a function of the project is given the model, or a method of it runs, and may cast it or make parts."""
    if owner_of(call) == mention.name and isinstance(call.func, ast.Attribute):
        owner = class_of(project, made.module, made.call.func)
        method = method_of(project, *owner, call.func.attr) if owner is not None else None
        return method is not None and _remakes(project, method.module, method.node)
    target = called_function(project, mention.module, call)
    if target is None or target.node.name == "__init__":
        return False
    given = [key for key, value in target.arguments(call).items() if ast.unparse(value) == mention.name]
    return any(_recasts(item, key) for key in given for item in _plain_statements(target.node))


def applied_inside(
    project: Project, mention: Mention, made: Creation
) -> tuple[ModuleNames, ast.stmt, ast.Call, str] | None:
    """The cast of layers that a statement applies to a model or a part of it, or that the method does which it calls.

    With the statement that applies it, and the part; the first one where a method does several.
    """
    statement, name = mention.statement, mention.name
    call = statement.value if isinstance(statement, ast.Expr) else None
    own = isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and owner_of(call) == name
    owner = class_of(project, made.module, made.call.func) if own else None
    method = method_of(project, *owner, call.func.attr) if owner is not None else None  # type: ignore[union-attr]
    if method is None:
        cast = applied_cast(mention.module, statement, name)
        return (mention.module, statement, *cast) if cast is not None else None
    every = _plain_statements(method.node) if not _remakes(project, method.module, method.node) else []
    found = ((item, applied_cast(method.module, item, "self")) for item in every)
    return next(((method.module, item, *cast) for item, cast in found if cast is not None), None)


def _recasts(statement: ast.stmt, name: str) -> bool:
    return may_change_back(statement, name) and not mentions(statement, FROZEN)


def _plain_statements(function: FunctionNode) -> list[ast.stmt]:
    return [item for item in ast.walk(function) if isinstance(item, ast.stmt) and not isinstance(item, COMPOUND)]


def _remakes(project: Project, module: ModuleNames, method: FunctionNode, hops: int = MAX_METHODS) -> bool:
    """Whether a method casts its own model in place, or gives it parts that are float32 whatever it was cast to."""
    for statement in _plain_statements(method):
        casts = isinstance(statement, ast.Expr) and _recasts(statement, "self")
        calls = [item for item in ast.walk(statement) if isinstance(item, ast.Call)]
        if casts or any(_makes_weights(module, item) for item in calls):
            return True
        inner = (called_function(project, module, item) for item in calls if owner_of(item) == "self" and hops)
        if any(each is not None and _remakes(project, each.module, each.node, hops - 1) for each in inner):
            return True
    return False


def _makes_weights(module: ModuleNames, call: ast.Call) -> bool:
    """``nn.Parameter(...)``, ``nn.Linear(4, 4)``: no dtype is asked for."""
    name = module.qualified(call.func) or ""
    made = name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()
    return made and not any(item.arg == "dtype" for item in call.keywords)


def is_new_part(statement: ast.stmt, name: str) -> bool:
    """``model.head = nn.Linear(...)`` is float32, whatever the model is; so may be a new ``pipe.unet``."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return False
    made = (attribute_chain(statement.value.func) or [""])[-1]
    stored = [ast.unparse(item) for item in statement.targets if isinstance(item, ast.Attribute)]
    anew = name in stored and not name.startswith("self.")
    return anew or (made[:1].isupper() and any(item.startswith(f"{name}.") for item in stored))
