"""Submodules that model classes list as staying in float32 whatever the model is cast to."""

from __future__ import annotations

import ast

from ...codemod.flow.frame import Meeting
from ...codemod.python.names import names_of
from ...codemod.source.project import Project


def names_kept_in_float32(project: Project) -> frozenset[str]:
    """The submodules that model classes list as staying in float32 (``_keep_in_fp32_modules`` of transformers)."""
    found: set[str] = set()
    for document in project.python_documents(("_keep_in_fp32_modules",)):
        for name, stores in names_of(project, document).attribute_stores.items():
            if name.startswith("_keep_in_fp32_modules"):
                values = [value for _, value, _ in stores if isinstance(value, ast.List | ast.Tuple)]
                texts = [ast.literal_eval(item) for value in values for item in value.elts if _is_text(item)]
                found.update(_submodule(text) for text in texts)
    return frozenset(found)


def _submodule(path: str) -> str:
    """``gate`` for ``mlp.gate.weight``."""
    parts = [part for part in path.split(".") if part not in ("weight", "bias")]
    return parts[-1] if parts else path


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_kept_in_float32(project: Project, meeting: Meeting) -> bool:
    """Whether the weights belong to a submodule that stays in float32, or to a class that such a submodule is of."""
    kept = project.fact(names_kept_in_float32)
    if not kept:
        return False
    node = meeting.meant.node
    if any(isinstance(part, ast.Attribute) and part.attr in kept for part in ast.walk(node)):
        return True
    owner = meeting.module.scope_of(meeting.node).enclosing_class
    name = owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else ""
    return any(
        isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == name
        for kept_name in kept
        for _, value, _ in meeting.module.attribute_stores.get(kept_name, [])
    )
