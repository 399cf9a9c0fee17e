"""Functions that another one starts: ``mp.spawn(train, args=(world_size, use_amp))`` calls ``train(rank, ...)``."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ..source.project import Project
from .bindings import only_value
from .functions import FunctionTarget, named_function
from .names import ModuleNames, parameters_of

STARTERS = {
    "torch.multiprocessing.spawn": ("fn", 1),
    "torch.multiprocessing.start_processes": ("fn", 1),
    "torch_xla.distributed.xla_multiprocessing.spawn": ("fn", 1),
    "torch.multiprocessing.Process": ("target", 0),
    "multiprocessing.Process": ("target", 0),
    "threading.Thread": ("target", 0),
    "detectron2.engine.launch": ("main_func", 0),
}
"""Calls that start what they are passed: the parameter that takes the function, and how many arguments they add."""


@dataclass(slots=True, eq=False)
class StartedFunction(FunctionTarget):
    """A function as reached by a call that starts it."""

    given: dict[str, ast.expr]

    def arguments(self, call: ast.Call) -> dict[str, ast.expr]:
        """Parameter name -> argument expression."""
        return self.given


def started_function(project: Project, module: ModuleNames, call: ast.Call, function: ast.AST) -> FunctionTarget | None:
    """The project's function that ``call`` starts where it is passed ``function``, with all that it then gets."""
    name, added = STARTERS.get(module.qualified(call.func) or "", ("", 0))
    keywords = {item.arg: item.value for item in call.keywords}
    passed_to = keywords.get(name, call.args[0] if call.args and name != "target" else None)
    if not name or passed_to is not function or not isinstance(function, ast.expr):
        return None
    target = named_function(project, module, function, module.scope_of(call))
    given = keywords.get("args", call.args[1] if len(call.args) > 1 and name == "fn" else None)
    found = only_value(module, given) if isinstance(given, ast.Name) else given
    if target is None or "kwargs" in keywords or not isinstance(found, ast.Tuple | ast.List | None):
        return None
    passed = found.elts if found is not None else []
    names = [item.arg for item in parameters_of(target.node)][target.bound + added :]
    if any(isinstance(item, ast.Starred) for item in passed) or len(passed) > len(names):
        return None
    return StartedFunction(target.module, target.node, target.bound, dict(zip(names, passed, strict=False)))
