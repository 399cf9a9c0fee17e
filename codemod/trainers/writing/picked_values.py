"""What the code of a project itself gives a trainer's call: a constant under a name, or what a function returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...purpose.flagged import is_run_at
from ...python.bindings import only_value
from ...python.functions import called_function
from ...source.project import Project
from ..reading.handed import handed_to
from ..reading.scopes import Setting, SettingScope, token_of_constant
from ..reading.source import ValueSource, literal_source

OF_CODE = ("", "constant")


def picked_for(project: Project, scope: SettingScope) -> Iterator[tuple[Setting, ValueSource, str]]:
    """Where code picks the settings of a call, and nothing else gives them: each value that a given run comes to."""
    handed = handed_to(project, scope)
    for setting in scope.settings:
        listed = [item.source for item in handed if item.setting is setting]
        if any(source.kind not in OF_CODE or source.word for source in listed):
            continue
        for source in listed or _returned(project, scope, setting):
            if source.picked_by:
                continue
            token = token_of_constant(source.value)
            if token is not None and is_run_at(project, source.path, source.span):
                yield setting, source, token


def _returned(project: Project, scope: SettingScope, setting: Setting) -> Iterator[ValueSource]:
    """``Trainer(precision=precision_of(args))``: the constants that the function returns."""
    module, node = scope.argument(setting) or (None, None)
    if module is None or node is None or setting.value is not None or not setting.key.means:
        return
    value = only_value(module, node) if isinstance(node, ast.Name) else node
    target = called_function(project, module, value) if isinstance(value, ast.Call) else None
    if target is None:
        return
    for statement in target.module.returns_of(target.node):
        if isinstance(statement.value, ast.Constant):
            source = literal_source("constant", target.module, statement.value, setting.name)
            if source is not None:
                yield source
