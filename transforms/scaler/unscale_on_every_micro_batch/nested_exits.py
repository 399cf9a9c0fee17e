"""Passes that leave from inside of another ``if``, behind ``unscale_`` or ``step`` and before the update."""

from __future__ import annotations

import ast

from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.paths import exclusive, guard_facts, guards, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep
from .steps_alone import asks_of_the_pass


def left_without_update(project: Project, step: ScalerStep, call: ast.Call) -> ast.expr | None:
    """``if bad: if count: continue`` behind ``call``: a test, of the pass, by which it ends without an update."""
    module, known = step.module, guard_facts(step.module, call)
    updates = [item for item in step.of("update") if position(item) > position(call)]
    for node in ast.walk(step.function) if updates else ():
        if not _goes_on(step, call, node) or not position(call) < position(node) < position(updates[-1]):
            continue
        between = [item for item in updates if position(item) < position(node)]
        if exclusive(module, call, node) or any(not exclusive(module, item, node) for item in between):
            continue
        asked = [guard for guard in guards(module, node) if not set(guard.facts) <= known and guard.leaving is None]
        tests = [guard.test for guard in asked if asks_of_the_pass(project, step, guard.test, call)]
        if len(asked) > 1 and tests and is_reached(project, module, node):
            return tests[-1]
    return None


def _goes_on(step: ScalerStep, call: ast.Call, node: ast.AST) -> bool:
    """Whether a statement ends the pass of a call, and another pass follows."""
    around = loops(step.module, call)
    if isinstance(node, ast.Continue):
        return bool(around) and loops(step.module, node) == around
    is_own = isinstance(node, ast.Return) and step.module.scope_of(node).function.node is step.function
    return is_own and not around and not loops(step.module, node)
