"""Whether code that cannot be followed may use a scaler."""

from __future__ import annotations

import ast

from ...codemod.python.names import ModuleNames, modules_with
from ...codemod.source.project import Project
from ...codemod.torch.scalers import Scaler, scalers

HIDDEN_ROUTES = frozenset({"escaped", "returned"})
HIDDEN_USES = ("private", "escaped", "stored", "bound-method", "method", "returned", "called")


def is_hidden(scaler: Scaler) -> bool:
    """Whether code that cannot be followed may use the scaler."""
    if scaler.routes & HIDDEN_ROUTES or scaler.uses_of(*HIDDEN_USES):
        return True
    given = [(scaler.module, scaler.call), *((use.module, use.node) for use in scaler.uses_of("assigned"))]
    return any(_is_kept_in_container(module, node) for module, node in given)


def _is_kept_in_container(module: ModuleNames, node: ast.AST) -> bool:
    """``parts["scaler"] = scaler``."""
    statement = module.statement_of(node)
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) for target in targets)


def is_done_otherwise(project: Project, method: str) -> bool:
    """Whether the project calls the method of something that is called a scaler and is not one that is known."""
    known = {use.call for each in scalers(project) for use in each.uses_of(method)}
    for module in modules_with(project, ("scaler",), (method,)):
        for call in module.calls_by_name.get(method, []):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if call not in known and receiver is not None and "scaler" in ast.unparse(receiver).lower():
                return True
    return False
