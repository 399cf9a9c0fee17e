"""Fields of classes that Hydra or OmegaConf hold a configuration to: what cannot become their type is refused."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ...python.class_fields import declared_fields
from ...python.functions import class_of
from ...python.names import ModuleNames, names_of
from ...source.project import Project

STORES = ("store", "structured")
"""``cs.store(name="base", node=Engine)``, ``OmegaConf.structured(Engine)``."""
NUMBERS = ("int", "float")
MAX_DEPTH = 4
"""How many classes stand in each other."""


def numbers_asked(project: Project, name: str) -> str:
    """The place and the type of a field of this name that takes numbers only; "" where none does."""
    return project.fact(_numbers).get(name, "")


def _numbers(project: Project) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for document in project.python_documents(STORES, ("ConfigStore", "OmegaConf")):
        module = names_of(project, document)
        for call in (call for name in STORES for call in module.calls_by_name.get(name, ())):
            given = [item.value for item in call.keywords if item.arg == "node"] or call.args[-1:]
            for node in given:
                named = node.func if isinstance(node, ast.Call) else node
                found |= dict(_fields(project, module, named, 0))
    return found


def _fields(project: Project, module: ModuleNames, node: ast.expr, depth: int) -> Iterator[tuple[str, str]]:
    own = class_of(project, module, node) if depth < MAX_DEPTH else None
    if own is None or not isinstance(own[1].node, ast.ClassDef):
        return
    holder, scope = own
    for base in own[1].node.bases:
        yield from _fields(project, holder, base, depth + 1)
    for name, statement in declared_fields(scope.node).items():
        asked = ast.unparse(statement.annotation)
        if asked in NUMBERS:
            yield name, f"{holder.path}:{holder.document.span(statement).row} {name}: {asked}"
        elif isinstance(statement.annotation, ast.Name | ast.Attribute):
            yield from _fields(project, holder, statement.annotation, depth + 1)
