"""Which node of a document an edit means."""

from __future__ import annotations

import ast

from ..model import Edit, Span
from ..python.names import ModuleNames, names_of
from ..source.documents import FileKind
from ..source.project import Project


def module_of(project: Project, edit: Edit) -> ModuleNames | None:
    """The Python file that an edit changes, or None."""
    document = project.document(edit.path)
    if document is None or document.kind not in (FileKind.PYTHON, FileKind.NOTEBOOK):
        return None
    return names_of(project, document)


def node_at(project: Project, module: ModuleNames, span: Span, kind: type[ast.AST]) -> ast.AST | None:
    """The expression or statement that stands at ``span``."""
    rows = project.memo(_rows_of, module)
    return next((node for node in rows.get(span.row, ()) if isinstance(node, kind) and module.span(node) == span), None)


def _rows_of(project: Project, module: ModuleNames) -> dict[int, list[ast.expr | ast.stmt]]:
    """The nodes of a module by the row on which they begin."""
    rows: dict[int, list[ast.expr | ast.stmt]] = {}
    for node in module.nodes:
        if isinstance(node, ast.expr | ast.stmt):
            rows.setdefault(node.lineno, []).append(node)
    return rows
