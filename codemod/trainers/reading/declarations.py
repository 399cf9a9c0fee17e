"""Every place of a project that a known trainer reads: the ledger's entries."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from ...purpose.imports import reached_from
from ...python.names import modules_at
from ...source.facts import fact
from ...source.project import Project
from ..parsers.programs import MAX_MODULES
from .call_scopes import call_scopes
from .mapping_scopes import mapping_scopes
from .passed_sections import passed_sections, with_objects
from .scopes import SettingScope
from .text_scopes import text_scopes

OF_TRAINERS = ("Trainer", "TrainingArguments", "Config(")
"""What code says that passes options on to a trainer of transformers or trl."""


@fact
def scopes_of(project: Project) -> tuple[SettingScope, ...]:
    """All scopes of the project, by path and line, computed once."""
    calls = [with_objects(project, call) for call in call_scopes(project)]
    texts = [scope for scope in text_scopes(project) if _may_reach_trainer(project, scope)]
    found = [*texts, *passed_sections(project, calls, texts), *calls, *mapping_scopes(project)]
    return tuple(sorted(found, key=lambda scope: (scope.path, scope.span, scope.framework.id)))


def checked_scopes(project: Project) -> tuple[SettingScope, ...]:
    """Those with something in the files in which mistakes are looked for."""
    checked = project.checked_files
    if checked is None:
        return scopes_of(project)
    return tuple(dict.fromkeys(scope for path in sorted(checked) for scope in project.fact(_scopes_in, path)))


def _scopes_in(project: Project, path: str) -> tuple[SettingScope, ...]:
    return project.once(_by_path, lambda: _by_path(project)).get(path, ())


def _by_path(project: Project) -> dict[str, tuple[SettingScope, ...]]:
    found: dict[str, tuple[SettingScope, ...]] = {}
    for scope in scopes_of(project):
        for path in {scope.path, *(setting.place.path for setting in scope.settings)}:
            found[path] = (*found.get(path, ()), scope)
    return found


def _may_reach_trainer(project: Project, scope: SettingScope) -> bool:
    """Whether the flags of a line are a trainer's own, or options of a program that speaks of such arguments.

    ``--fp16`` of a loop that is written by hand looks like the Trainer's.
    """
    is_copied = scope.kind == "command" and scope.framework.parsed_by_scripts and bool(scope.readers)
    if not is_copied or any(reader.frameworks or not reader.is_closed for reader in scope.readers):
        return True
    behind = reached_from(project, modules_at(project, [reader.path for reader in scope.readers]), MAX_MODULES)
    return any(word in module.document.text for module in behind for word in OF_TRAINERS)


def calls_of(project: Project, *frameworks: str) -> tuple[SettingScope, ...]:
    """The calls that one of these trainers, or with none named any trainer, is told something by."""
    calls = project.fact(_by_call).values()
    return tuple(scope for scope in calls if not frameworks or scope.framework.id in frameworks)


def scope_of_call(project: Project, call: ast.Call) -> SettingScope | None:
    """What a call tells a trainer; None for a call of something else."""
    return project.fact(_by_call).get(call)


def _by_call(project: Project) -> Mapping[ast.AST, SettingScope]:
    return {scope.call: scope for scope in scopes_of(project) if scope.call is not None}
