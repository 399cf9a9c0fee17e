"""Every place of a project that a known trainer reads: the ledger's entries."""

from __future__ import annotations

from ...source.project import Project
from .call_scopes import call_scopes
from .mapping_scopes import mapping_scopes
from .scopes import Scope
from .text_scopes import text_scopes


def scopes_of(project: Project) -> tuple[Scope, ...]:
    """All scopes of the project, by path and line, computed once."""
    return project.fact(_scopes)


def _scopes(project: Project) -> tuple[Scope, ...]:
    found = [*text_scopes(project), *call_scopes(project), *mapping_scopes(project)]
    return tuple(sorted(found, key=lambda scope: (scope.path, scope.span, scope.framework.id)))
