"""Which code of the modules that a run imports is its own: what its script uses, directly or through others.

An import brings a whole module along; a run does not declare what stands in functions that it never names.
"""

from __future__ import annotations

import ast

from ...purpose.proved_reach import is_reached
from ...python.names import modules_at, root_name
from ...python.reach import MAX_PARTS, reached
from ...source.project import Project
from ..parsers.programs import is_main_guard
from .scopes import CodeOrigin, SettingScope


def is_of_script_only(project: Project, script: str, path: str, row: int) -> bool:
    """Whether a place runs only where its module is the script, which is another one: ``if __name__ == ...``."""
    return path != script and any(first <= row <= last for first, last in project.memo(_rows_of_scripts, path))


def is_used(project: Project, script: str, path: str, row: int) -> bool:
    """Whether the code at ``path`` and ``row`` is that of ``script``, or used by it; true where that is not known."""
    if path == script:
        return True
    if is_of_script_only(project, script, path, row):
        return False
    spans = project.memo(_used_rows, script)
    row = project.memo(_rows_of_holders, path).get(row, row)
    return spans is None or any(first <= row <= last for first, last in spans.get(path, ()))


def _rows_of_holders(project: Project, path: str) -> dict[int, int]:
    """For each row at the top of a module that fills an object (``_C.AMP = True``), the row where that is made."""
    found: dict[int, int] = {}
    for module in modules_at(project, [path]):
        for statement in module.tree.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            name = root_name(target) if isinstance(target, ast.Attribute | ast.Subscript) else None
            made = module.module_scope.bindings.get(name or "", ())
            if made and isinstance(made[0].node, ast.stmt):
                found[statement.lineno] = made[0].node.lineno
    return found


def _rows_of_scripts(project: Project, path: str) -> list[tuple[int, int]]:
    """The rows of a module that run only where it is the script."""
    modules = [*modules_at(project, [path])]
    guarded = [(module, node) for module in modules for node in module.tree.body if is_main_guard(node)]
    spans = [module.document.span(node) for module, node in guarded]
    return [(span.row, span.end_row) for span in spans]


def is_passed_by(project: Project, scope: SettingScope, script: str) -> bool:
    """Whether a run does not come to a place: a dictionary behind a switch that nothing sets
    (``if args.deepspeed: write_config()``), a call in a function of the script's own that nothing calls.
    """
    origin = scope.origin
    if not isinstance(origin, CodeOrigin) or origin.node is None:
        return False
    if origin.module.path == script:
        return scope.kind == "call" and not is_reached(project, origin.module, origin.node, _whatever_is_tested)
    return scope.kind == "mapping" and not is_reached(project, origin.module, origin.node)


def _whatever_is_tested(_project: Project, _place: object) -> bool:
    return True


def _used_rows(project: Project, script: str) -> dict[str, list[tuple[int, int]]] | None:
    """By file the rows of every definition that ``script`` uses; None where it uses too many to tell."""
    modules = [*modules_at(project, [script])]
    found = reached(project, [(module, module.tree) for module in modules])
    if len(found.parts) >= MAX_PARTS or not modules:
        return None
    spans: dict[str, list[tuple[int, int]]] = {}
    for node, module in found.parts.items():
        span = module.document.span(node)
        spans.setdefault(module.document.path, []).append((span.row, span.end_row))
    return spans
