"""Reads of the scaler that a trainer makes for float16 alone: after a move there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..model import Place
from ..python.names import ModuleNames, modules_at, modules_with
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
    for module in modules_at(project, paths) if paths else ():
        for node in module.of_type(ast.Attribute) if SCALER in module.document.text else ():
            used = any(not _is_guarded(module, item) for item in _uses(module, node)) if node.attr == SCALER else False
            if used and _is_made_elsewhere(project, node):
                yield module.place(node, f"{ast.unparse(node)} {NO_SCALER}")


def _uses(module: ModuleNames, node: ast.Attribute) -> Iterator[ast.expr]:
    """Where a method of it is called: right there, or of the variable that it is given to."""
    above = module.parents.get(node)
    held: list[ast.expr] = [node]
    if isinstance(above, ast.Assign | ast.NamedExpr):
        targets = above.targets if isinstance(above, ast.Assign) else [above.target]
        for target in (item for item in targets if isinstance(item, ast.Name)):
            bound = module.bindings_of(target)
            loads = module.name_loads.get(target.id, ())
            held += [item for item in loads if module.scope_of(item).lookup(target.id) is bound]
    for item in held:
        method = module.parents.get(item)
        if isinstance(method, ast.Attribute) and method.attr in OF_SCALERS:
            yield item


def _is_guarded(module: ModuleNames, used: ast.expr) -> bool:
    tests = [item.test for item in guards(module, used)]
    tried = any(isinstance(above, ast.Try) for above in module.ancestors(used))
    names = {SCALER, last_name(used)}
    asked = (last_name(item) for test in tests for item in ast.walk(test))
    return tried or any(name in names for name in asked) or any(speaks(ast.unparse(test)) for test in tests)


def _is_made_elsewhere(project: Project, node: ast.Attribute) -> bool:
    """Whether a trainer makes the scaler: it is known to, or no code of the project gives anything one."""
    return last_name(node.value) in OF_TRAINERS or not project.fact(_gives_scalers)


def _gives_scalers(project: Project) -> bool:
    modules = [*modules_with(project, (SCALER,))]
    stored = (item for module in modules for item in module.of_type(ast.Attribute))
    held = (module.scopes[node] for module in modules for node in module.scopes if isinstance(node, ast.ClassDef))
    return any(item.attr == SCALER and isinstance(item.ctx, ast.Store) for item in stored) or any(
        SCALER in scope.bindings for scope in held
    )
