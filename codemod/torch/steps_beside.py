"""Steps that another method of one object makes: ``stepper.backward(loss)``, then ``stepper.optimize()``."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.arguments import owner_of
from ..python.functions import FunctionTarget, called_function
from ..python.names import ModuleNames, attribute_chain
from ..python.paths import calls_of, exclusive, function_of, position
from ..source.project import Project


def is_optimizer_step(call: ast.Call) -> bool:
    chain = attribute_chain(call.func)
    return chain is not None and len(chain) > 1 and chain[-1] == "step" and "opt" in chain[-2].lower()


def steps_beside(
    project: Project, module: ModuleNames, call: ast.Call, target: FunctionTarget
) -> Iterator[tuple[FunctionTarget, ast.Call]]:
    """The steps in methods of one class that are called on one object below ``call``, each with its method."""
    owner = target.module.scopes[target.node].enclosing_class
    for later in calls_of(module, function_of(module, call)) if owner is not None else ():
        is_later = position(later) > position(call) and not exclusive(module, later, call)
        if not is_later or not owner_of(call) or owner_of(later) != owner_of(call):
            continue
        other = called_function(project, module, later)
        if other is not None and other.module.scopes[other.node].enclosing_class is owner:
            inside = other.module.calls_inside.get((other.node, "step"), ())
            yield from ((other, step) for step in inside if is_optimizer_step(step))
