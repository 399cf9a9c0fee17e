"""Whether a run that the project gives resumes with a scaler that is on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import islice

from ...codemod.purpose.decided import decided, documented, settings_asked
from ...codemod.purpose.given import is_check, is_used
from ...codemod.purpose.regimes import conditions_of, speaks_of_precision
from ...codemod.purpose.runs import HalfProgram, runs_of
from ...codemod.purpose.steps import function_scope
from ...codemod.python.callers import CallSite, callers_of
from ...codemod.python.conditions import conditions_in
from ...codemod.python.creations import creations_of
from ...codemod.python.functions import FunctionTarget
from ...codemod.python.names import FunctionNode, ModuleNames, last_name, names_of, parameters_of
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import TextCondition
from ...codemod.torch.scalers import Scaler, ScalerUse

MAX_CALLERS = 4
MAX_FILES = 20
LOAD = "torch.load"
MET = ("exists(", "isfile(", "is_file(", "isdir(", "is_dir(", "is_available(")
"""Ends of questions about files, which an earlier run wrote, and about the machine."""


def steps_of_accelerate(project: Project, scaler: Scaler) -> tuple[tuple[ScalerUse, ...], tuple[HalfProgram, ...]]:
    """The steps by hand of optimizers that ``accelerator.prepare`` gave, and the runs, where accelerate decides all."""
    steps = tuple(use for use in scaler.uses_of("step") if _is_prepared(project, use))
    runs = tuple(run for run in runs_of(project, scaler.module, scaler.call) if run.trains) if steps else ()
    return (steps, runs) if runs and all(run.trainer == "accelerate" for run in runs) else ((), ())


def _is_prepared(project: Project, use: ScalerUse) -> bool:
    optimizer = use.call.args[0] if use.call is not None and use.call.args else None
    made = creations_of(project, use.module, optimizer) if optimizer is not None else ()
    return bool(made) and all(any(last_name(call.func) == "prepare" for call in item.through) for item in made)


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


def is_reached(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether ``node`` runs without an option that nothing in the project sets: automatically, or as documented."""
    return _is_reached(project, module, node, (), MAX_CALLERS)


def _is_reached(
    project: Project, module: ModuleNames, node: ast.AST, passed: Sequence[TextCondition], callers: int
) -> bool:
    """``passed`` is what has to hold besides, said in the words of the function that ``node`` stands in."""
    scope = function_scope(module, node)
    asked = [*passed, *conditions_in(project, module).path_given(node)]
    asked = [item for item in asked if not _is_met(item) and not is_check(module, item.node)]
    asked = [item for item in asked if not _names_what_is_loaded(module, node, item)]
    if not isinstance(scope.node, FunctionNode) or not callers:
        return _hold(project, module, asked)
    names = {parameter.arg for parameter in parameters_of(scope.node)}
    open_ones = [item for item in asked if isinstance(item.node, ast.Name) and item.node.id in names]
    if not _hold(project, module, [item for item in asked if item not in open_ones]):
        return False
    for site in _calls(project, module, scope.node):
        above = [_passed(site, item) for item in open_ones]
        found = [item for item in above if item is not None]
        given = len(found) == len(above) or _hold(project, module, open_ones)
        if given and _is_reached(project, site.module, site.call, found, callers - 1):
            return True
    return False


def _passed(site: CallSite, item: TextCondition) -> TextCondition | None:
    """The same condition on what a call passes for the parameter; None where it passes nothing."""
    argument = site.target.arguments(site.call).get(item.text)
    if argument is None:
        return None
    return TextCondition(ast.unparse(argument), item.values, item.equal, argument, site.module.scope_of(site.call))


def _is_met(item: TextCondition) -> bool:
    """Whether a program that is started, on its machine and after an earlier run, meets the test."""
    return item.text == "__name__" or (item.equal and any(word in item.text for word in MET))


def _names_what_is_loaded(module: ModuleNames, node: ast.AST, item: TextCondition) -> bool:
    """``if args.resume: load(args.resume)``: an option with a path is there to be given, on the day it is needed."""
    around = function_scope(module, node)
    loads = [
        call for call in module.calls if module.qualified(call.func) == LOAD and function_scope(module, call) is around
    ]
    passed = (argument for call in (node, *loads) if isinstance(call, ast.Call) for argument in call.args)
    return any(ast.unparse(inner) == item.text for argument in passed for inner in ast.walk(argument))


def _is_made(item: TextCondition) -> bool:
    """``optimizer is not None``, where a call made the optimizer."""
    bindings = item.scope.lookup(item.text)
    return item.values == (None,) and not item.equal and any(isinstance(each.value, ast.Call) for each in bindings)


def _hold(project: Project, module: ModuleNames, asked: Sequence[TextCondition]) -> bool:
    return all(_holds(project, module, item) or _is_made(item) or documented(project, module, item) for item in asked)


def _holds(project: Project, module: ModuleNames, item: TextCondition) -> bool:
    found = decided(project, module, [item])
    return found is not None and not found.open


def _calls(
    project: Project, module: ModuleNames, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[CallSite]:
    """The calls of a function; where none is certain, all that have its name."""
    sites = callers_of(project, module, function).sites
    yield from sites
    if not sites:
        target = FunctionTarget(module, function, module.scopes[function].enclosing_class is not None)
        documents = project.python_documents((), (f"{function.name}(",))
        for other in (names_of(project, document) for document in islice(documents, MAX_FILES)):
            calls = other.calls_by_name.get(function.name, [])
            yield from (CallSite(other, call, target) for call in calls if other.qualified(call.func) is None)
