"""Every place of a project that a known trainer reads: the ledger's entries."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ...source.facts import fact
from ...source.project import Project
from .call_scopes import call_scopes
from .mapping_scopes import mapping_scopes
from .passed_sections import passed_sections
from .scopes import Scope
from .text_scopes import text_scopes


@fact
def scopes_of(project: Project) -> tuple[Scope, ...]:
    """All scopes of the project, by path and line, computed once."""
    texts, calls = list(text_scopes(project)), list(call_scopes(project))
    found = [*texts, *passed_sections(project, calls, texts), *calls, *mapping_scopes(project)]
    return tuple(sorted(found, key=lambda scope: (scope.path, scope.span, scope.framework.id)))


def calls_of(project: Project, *frameworks: str) -> tuple[Scope, ...]:
    """The calls that one of these trainers, or with none named any trainer, is told something by."""
    calls = project.fact(_by_call).values()
    return tuple(scope for scope in calls if not frameworks or scope.framework.id in frameworks)


def scope_of_call(project: Project, call: ast.Call) -> Scope | None:
    """What a call tells a trainer; None for a call of something else."""
    return project.fact(_by_call).get(call)


def _by_call(project: Project) -> Mapping[ast.AST, Scope]:
    return {scope.call: scope for scope in scopes_of(project) if scope.call is not None}
