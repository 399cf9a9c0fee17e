"""Whether some run that the project states meets a condition: a default, a launch line, a file, a read-me."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..python.conditions import conditions_in
from ..python.names import ModuleNames
from ..python.settings_objects import may_hold_settings
from ..source.project import Project
from ..torch.dtypes import Given
from ..torch.scalers import Scaler
from ..trainers.reading.shown_flags import shown_values
from .decided import fits, is_ruled_out
from .regimes import conditions_of


def may_be_on(project: Project, scaler: Scaler) -> bool:
    """Whether nothing that the project states leaves the scaler off in each of its runs."""
    return all(
        is_given(project, module, conditions_in(project, module).given(test, holds))
        for module, test, holds in conditions_of(project, scaler)
        if not is_check(module, test)
    )


def is_given(project: Project, module: ModuleNames, asked: Iterable[Given]) -> bool:
    """Whether no value that the project states keeps these conditions from holding together."""
    return not any(is_ruled_out(project, module, item) and not is_documented(project, module, item) for item in asked)


def is_documented(project: Project, module: ModuleNames, item: Given) -> bool:
    """Whether a launch line in a read-me, or the head of the file, gives the option what the test asks for."""
    name, node = item.text.rpartition(".")[2], item.node
    if isinstance(node, ast.Attribute) and not may_hold_settings(project, module, node.value):
        return False
    return name.isidentifier() and any(not value or fits(value, item) for value in shown_values(project, module, name))


def is_check(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test above refuses what it is given: ``if len(size) != 2: raise``. Runs that are given pass it."""
    statement = module.statement_of(node) if node in module.parents else None
    if not isinstance(statement, ast.If) or node not in ast.walk(statement.test):
        return isinstance(statement, ast.Assert)
    return any(isinstance(last, ast.Raise) for last in (statement.body[-1], *statement.orelse[-1:]))
