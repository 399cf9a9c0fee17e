"""Whether a model of the project can end in float32 although its weights are 16-bit, told by its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.functions import class_of, method_of
from ..python.names import FunctionNode, ModuleNames, Scope
from ..source.facts import memo
from ..source.project import Project
from ..torch.api import NARROWING
from .classes import ProjectClass

WIDE = ("float", "float32", "double", "float64", "upcast", "autocast")
MAX_CLASSES = 60
"""Models that are made of more classes than this are not judged."""


@memo
def may_end_wide(project: Project, found: ProjectClass) -> bool:
    """Whether some ``forward`` of the class, or of the project's classes it builds, may give float32."""
    seen, waiting = {found.scope}, [found]
    while waiting:
        current = waiting.pop()
        target = method_of(project, current.module, current.scope, "forward")
        if target is not None and _gives_wide(target.node):
            return True
        for module, scope in _built(project, current):
            if scope not in seen:
                seen.add(scope)
                waiting.append(ProjectClass(module, scope))
        if len(seen) > MAX_CLASSES:
            return True
    return False


def _built(project: Project, found: ProjectClass) -> Iterator[tuple[ModuleNames, Scope]]:
    """The classes of the project whose objects the constructor makes."""
    target = method_of(project, found.module, found.scope, "__init__")
    for node in ast.walk(target.node) if target is not None else ():
        if target is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            made = class_of(project, target.module, node.func)
            if made is not None:
                yield made


def _gives_wide(function: FunctionNode) -> bool:
    """Whether float32 is asked for in a function, and a ``return`` of it does not cast back."""
    if not any(_word(node) in WIDE for node in ast.walk(function)):
        return False
    returned = [node.value for node in ast.walk(function) if isinstance(node, ast.Return) and node.value is not None]
    return not returned or not all(_casts_back(value) for value in returned)


def _word(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else node.arg or "" if isinstance(node, ast.keyword) else ""


def _casts_back(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in NARROWING for node in ast.walk(value)) and not any(
        _word(node) in WIDE for node in ast.walk(value)
    )
