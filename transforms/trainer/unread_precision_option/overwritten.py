"""A precision that is overwritten before anything reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ....codemod.model import Draft
from ....codemod.python.indexes import HOLDING
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from .words import names_precision


def overwritten_settings(_project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``use_amp = args.use_amp`` with ``use_amp = False`` on the next line."""
    for kind in HOLDING:
        for holder in module.of_type(kind):
            for field in ("body", "orelse", "finalbody"):
                for first, second in pairwise(getattr(holder, field, ())):
                    if _replaces(first, second):
                        message = f"{ast.unparse(first.targets[0])} is overwritten on the next line"
                        yield Draft.at(module, first, message, [module.place(second, "by this")])


def _replaces(first: ast.stmt, second: ast.stmt) -> bool:
    """Whether both assign the same setting, the first one what was chosen, and the second does not look at it."""
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return False
    target = first.targets[0]
    if len(first.targets) != 1 or len(second.targets) != 1 or not isinstance(target, ast.Name | ast.Attribute):
        return False
    name = target.id if isinstance(target, ast.Name) else target.attr
    text = ast.unparse(target) if names_precision(name, True) else ""
    if not text or text != ast.unparse(second.targets[0]):
        return False
    reads = any(isinstance(node, ast.Name | ast.Attribute) for node in ast.walk(first.value))
    calls = any(isinstance(node, ast.Call) for node in ast.walk(second.value))
    named = (node for node in ast.walk(second.value) if isinstance(node, ast.Name | ast.Attribute))
    looks = any(ast.unparse(node) == text for node in named)
    return reads and not calls and not looks
