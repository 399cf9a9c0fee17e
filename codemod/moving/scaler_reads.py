"""Reads of the scaler that a trainer makes for float16 alone: after a move there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..model import Place
from ..python.names import ModuleNames, names_of
from ..python.paths import guards
from ..python.scopes import last_name
from ..source.project import Project
from ..trainers.reading.stated_words import speaks

SCALER = "scaler"
OF_TRAINERS = ("accelerator", "precision_plugin")
"""What has the scaler of a trainer (accelerate, Lightning), whatever else a project calls one."""
OF_SCALERS = (
    *("get_scale", "scale", "step", "unscale_", "update", "is_enabled"),
    *("get_growth_factor", "get_growth_interval", "get_backoff_factor"),
)
"""Methods of a GradScaler."""
NO_SCALER = "reads the scaler, which the trainer makes for fp16-mixed only"


def scaler_reads(project: Project, paths: Sequence[str]) -> Iterator[Place]:
    """Where the code of a run uses ``accelerator.scaler``, with no test of it or of the precision around."""
    for document in project.python_documents_at(paths) if paths else ():
        module = names_of(project, document)
        for node in module.of_type(ast.Attribute) if SCALER in document.text else ():
            if _is_used(module, node) and not _is_guarded(module, node) and _is_made_elsewhere(project, node):
                yield module.place(node, f"{ast.unparse(node)} {NO_SCALER}")


def _is_used(module: ModuleNames, node: ast.Attribute) -> bool:
    above = module.parents.get(node)
    return node.attr == SCALER and isinstance(above, ast.Attribute) and above.attr in OF_SCALERS


def _is_guarded(module: ModuleNames, node: ast.Attribute) -> bool:
    tests = [ast.unparse(item.test) for item in guards(module, node)]
    tried = any(isinstance(above, ast.Try) for above in module.ancestors(node))
    return tried or any(SCALER in test or speaks(test) for test in tests)


def _is_made_elsewhere(project: Project, node: ast.Attribute) -> bool:
    """Whether a trainer makes the scaler: it is known to, or no code of the project gives anything one."""
    return last_name(node.value) in OF_TRAINERS or not project.fact(_gives_scalers)


def _gives_scalers(project: Project) -> bool:
    modules = [names_of(project, document) for document in project.python_documents((SCALER,))]
    stored = (item for module in modules for item in module.of_type(ast.Attribute))
    held = (module.scopes[node] for module in modules for node in module.scopes if isinstance(node, ast.ClassDef))
    return any(item.attr == SCALER and isinstance(item.ctx, ast.Store) for item in stored) or any(
        SCALER in scope.bindings for scope in held
    )
