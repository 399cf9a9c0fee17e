"""Comparisons of a ``torch.device`` with ``"cuda"``, which it never equals, where a precision depends on the answer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.precision_words import HALVES, SWITCHING
from ....codemod.source.project import Project
from ....codemod.torch.devices import OPEN, devices_of
from .known_dtypes import comparisons_with_words

CUDA = "cuda"
ENTERING = ("autocast", "GradScaler")
SWITCHED = frozenset((*ENTERING, "half", *HALVES))
"""Names of which one in a branch says that it chooses a precision."""


def device_with_string(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``torch.autocast("cuda", enabled=device == "cuda")`` where ``device`` is a ``torch.device``."""
    for node, left, words in comparisons_with_words(module):
        if not any(str(word.value).startswith(CUDA) for word in words) or _is_asked_otherwise(module, node):
            continue
        if _decides(module, node) and _is_device(project, module, left):
            verb = "always" if isinstance(node.ops[0], ast.NotEq | ast.NotIn) else "never"
            message = f"{ast.unparse(left)} is a torch.device, which is equal to no string: this is {verb} true"
            yield Draft.at(module, node, f"{message}; ask for {ast.unparse(left)}.type")


def _is_device(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether it is an object in each run, and of a GPU in some; what only an annotation says may be a string."""
    found = devices_of(project, module, node)
    bound = module.bindings_of(node)
    is_told = all(item.kind for item in found) or not any(getattr(item.node, "annotation", None) for item in bound)
    kinds = {item.kind for item in found if item.form == "object"}
    return is_told and all(item.form == "object" for item in found) and not kinds.isdisjoint((CUDA, OPEN, ""))


def _is_asked_otherwise(module: ModuleNames, node: ast.expr) -> bool:
    """Whether the same test asks for the device in another way, or whether it is a string."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.stmt):
            return False
        if isinstance(parent, ast.BoolOp):
            others = [item for item in parent.values if node not in ast.walk(item)]
            if isinstance(parent.op, ast.Or) or any("isinstance" in ast.unparse(item) for item in others):
                return True
    return False


# --- what depends on it -----------------------------------------------------------------------------------------------


def _decides(module: ModuleNames, node: ast.expr) -> bool:
    """Whether autocast, a scaler or a 16-bit type depends on the answer."""
    statement = module.statement_of(node)
    for parent in module.ancestors(node):
        if parent is statement:
            break
        if isinstance(parent, ast.Call) and last_name(parent.func) in ENTERING:
            return True
        if isinstance(parent, ast.IfExp) and node in ast.walk(parent.test):
            return _chooses(parent.body, parent.orelse) or _is_handed_on(module, statement)
    if isinstance(statement, ast.If) and node in ast.walk(statement.test):
        return _chooses(*statement.body, *statement.orelse)
    return _is_handed_on(module, statement)


def _chooses(*branches: ast.AST) -> bool:
    nodes = [node for branch in branches for node in ast.walk(branch)]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return not SWITCHED.isdisjoint(names | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


def _is_handed_on(module: ModuleNames, statement: ast.stmt) -> bool:
    """``use_amp = device == "cuda"``; ``kind = "cuda" if device == "cuda" else "cpu"``, which autocast is given."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if not isinstance(target, ast.Name):
        return False
    reads = [item for item in module.name_loads.get(target.id, []) if module.scope_of(item) is module.scope_of(target)]
    calls = (parent for item in reads for parent in module.ancestors(item) if isinstance(parent, ast.Call))
    is_given = any(last_name(call.func) in ENTERING for call in calls)
    return is_given or not set(SWITCHING).isdisjoint(target.id.lower().split("_"))
