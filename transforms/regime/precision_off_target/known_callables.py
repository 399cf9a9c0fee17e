"""What is known of a callable whose code is not followed: whether it is Python's own, wrapped, or only holds values."""

from __future__ import annotations

import ast
import sys

from ....codemod.python.bound import BUILTINS
from ....codemod.python.functions import FunctionTarget
from ....codemod.python.names import ModuleNames
from ....codemod.python.scopes import last_name

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
