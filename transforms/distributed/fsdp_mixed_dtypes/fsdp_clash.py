"""What one of the FSDP checks has found, before it becomes a finding of the rule."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ....codemod.model import Fix, Place
from ....codemod.python.names import ModuleNames


@dataclass(frozen=True, slots=True, eq=False)
class Clash:
    """Two statements about the dtypes of sharded parameters that do not go together."""

    module: ModuleNames
    node: ast.expr | ast.stmt
    message: str
    evidence: tuple[Place, ...] = ()
    fix: Fix | None = None


def place(module: ModuleNames, node: ast.AST, message: str) -> Place:
    """Evidence at a node."""
    return module.place(node, message)
