"""Which models a project hands to ``accelerator.prepare``."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames, last_name, modules_with
from ..source.facts import fact
from ..source.project import Project


@fact
def prepared_names(project: Project) -> frozenset[str]:
    """The names of everything that is passed to a method called ``prepare``, digits at their end left out.

    accelerate 1.15 wraps the forward of a prepared model: it runs under autocast, and its outputs become float32.
    """
    found: set[str] = set()
    for module in modules_with(project, ("prepare(",)):
        for call in module.calls_by_name.get("prepare", []):
            if isinstance(call.func, ast.Attribute) and "accelerator" in ast.unparse(call.func.value).lower():
                found.update(plain_name(item) for item in call.args)
    return frozenset(found - {""})


def may_be_prepared(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether the model that ``node`` names can have gone through ``prepare``.

    A script that prepares nothing (inference, export) runs the model as it loaded it.
    """
    if plain_name(node) not in prepared_names(project):
        return False
    return "prepare" in module.calls_by_name or "__main__" not in module.document.text


def plain_name(node: ast.expr) -> str:
    """``text_encoder`` for ``text_encoder2``, ``self.text_encoder``, ``text_encoders[0]``."""
    if isinstance(node, ast.Subscript | ast.Starred):
        return plain_name(node.value)
    name = last_name(node)
    name = name.rstrip("_0123456789")
    return name.removesuffix("s") if name.endswith("encoders") else name
