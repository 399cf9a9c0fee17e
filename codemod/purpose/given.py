"""Whether some run that the project states meets a condition: a default, a launch line, a file, a read-me."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from ..python.conditions import conditions_in
from ..python.names import ModuleNames
from ..python.paths import EXITS_OF_PROCESS
from ..source.project import Project
from ..torch.dtypes import Given
from ..torch.scalers import Scaler
from .decided import documented, is_ruled_out, settings_asked
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
    return not any(
        is_ruled_out(project, module, each) and not documented(project, module, each)
        for item in asked
        for each in settings_asked(project, module, item)
    )


def is_check(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test above refuses what it is given: ``if len(size) != 2: raise``. Runs that are given pass it."""
    statement = module.statement_of(node) if node in module.parents else None
    if not isinstance(statement, ast.If) or node not in ast.walk(statement.test):
        return isinstance(statement, ast.Assert)
    return any(_ends_process(last) for last in (statement.body[-1], *statement.orelse[-1:]))


def _ends_process(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(node, ast.Raise) or (isinstance(call, ast.Call) and ast.unparse(call.func) in EXITS_OF_PROCESS)
