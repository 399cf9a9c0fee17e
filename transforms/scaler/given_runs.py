"""Whether a run that the project gives resumes with a scaler that is on."""

from __future__ import annotations

import ast

from ...codemod.purpose.decided import decided, documented, settings_asked
from ...codemod.purpose.given import is_check, is_used
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.purpose.regimes import conditions_of, speaks_of_precision
from ...codemod.purpose.steps import function_scope
from ...codemod.python.conditions import conditions_in
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import Given
from ...codemod.torch.scalers import Scaler

MAX_CALLERS = 4
MAX_FILES = 20
LOAD = "torch.load"
MET = ("exists(", "isfile(", "is_file(", "isdir(", "is_dir(", "is_available(")
"""Ends of questions about files, which an earlier run wrote, and about the machine."""


def is_on(project: Project, scaler: Scaler) -> bool:
    """Whether defaults, launch lines and files leave the scaler on."""
    tests = conditions_of(project, scaler)
    return is_used(project, scaler) and all(comes_out(project, *item) for item in tests)


def comes_out(project: Project, module: ModuleNames, test: ast.expr, holds: bool) -> bool:
    """Whether defaults, launch lines and files let a test come out as ``holds``.

    Where they say nothing it does, unless it asks for a precision: that is hardly the default then.
    """
    if is_check(module, test):
        return True
    given = conditions_in(project, module).given(test, holds)
    asked = [each for item in given for each in settings_asked(project, module, item)]
    found = [decided(project, module, [item]) for item in asked]
    is_unknown = not asked or None in found
    if is_unknown and speaks_of_precision(project, module, test):
        return False
    return not any(known is not None and known.open for known in found)


def is_resumed(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a run that the project gives comes to ``node``, where paths of checkpoints are given as well."""
    return is_reached(project, module, node, _resumes)


def _resumes(project: Project, asked: tuple[ModuleNames, ast.AST]) -> bool:
    """The same of the tests in one function: an option that nothing in the project sets is off."""
    module, node = asked
    tests = conditions_in(project, module).path_given(node, function_scope(module, node))
    return all(
        _is_met(item) or _names_what_is_loaded(module, node, item) or _holds(project, module, item)
        for item in tests
        if not is_check(module, item.node)
    )


def _holds(project: Project, module: ModuleNames, item: Given) -> bool:
    found = decided(project, module, [item])
    return (found is not None and not found.open) or _is_made(item) or bool(documented(project, module, item))


def _is_made(item: Given) -> bool:
    """``optimizer is not None``, where a call made the optimizer."""
    bindings = item.scope.lookup(item.text)
    return item.values == (None,) and not item.equal and any(isinstance(each.value, ast.Call) for each in bindings)


def _is_met(item: Given) -> bool:
    """Whether a program that is started, on its machine and after an earlier run, meets the test."""
    return item.text == "__name__" or (item.equal and any(word in item.text for word in MET))


def _names_what_is_loaded(module: ModuleNames, node: ast.AST, item: Given) -> bool:
    """``if args.resume: load(args.resume)``: an option with a path is there to be given, on the day it is needed."""
    around = function_scope(module, node)
    loads = [
        call for call in module.calls if module.qualified(call.func) == LOAD and function_scope(module, call) is around
    ]
    passed = (argument for call in (node, *loads) if isinstance(call, ast.Call) for argument in call.args)
    return any(ast.unparse(inner) == item.text for argument in passed for inner in ast.walk(argument))
