"""What one part of a rule found, before it becomes a finding of that rule."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...codemod.model import Fix, Place
from ...codemod.python.names import ModuleNames


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """A mistake at ``node``."""

    module: ModuleNames
    node: ast.AST
    message: str
    evidence: tuple[Place, ...] = ()
    fixes: tuple[Fix, ...] = ()


def place(module: ModuleNames, node: ast.AST, message: str) -> Place:
    """``node`` as evidence."""
    return Place(module.document.path, module.document.span(node), message)
