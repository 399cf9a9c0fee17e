"""Calls of a scaler of which the second certainly runs behind the first, in the same pass."""

from __future__ import annotations

import ast
from collections.abc import Collection

from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import calls_of, exclusive, guard_facts, guards, loops, position, tries
from ...codemod.torch.scaler import UseKind
from ...codemod.torch.scaler_steps import ScalerStep

With = (ast.With, ast.AsyncWith)
LEAVING = (ast.Continue, ast.Break, ast.Return, ast.Raise, ast.Yield, ast.YieldFrom, ast.Delete)
PLAIN = (ast.Compare, ast.cmpop, ast.BoolOp, ast.boolop, ast.UnaryOp, ast.unaryop, ast.Constant, ast.expr_context)
CAUGHT = ("suppress", "raises", "assert")


def follows(step: ScalerStep, first: ast.Call, second: ast.Call, harmless: Collection[UseKind]) -> bool:
    """Whether the second call runs in just the passes in which the first does, and straight behind it.

    ``harmless``: the uses of the scaler that may stand between. What both name is not bound anew.
    """
    module, start, end = step.module, position(first), position(second)
    if any(start < position(use.node) < end and use.kind not in harmless for use in step.uses if use.call is not first):
        return False
    if loops(module, first) != loops(module, second) or _blocks(module, first) != _blocks(module, second):
        return False
    if not all(isinstance(module.parents[call], ast.Expr) for call in (first, second)) or _is_caught(module, second):
        return False
    if step.name_of_scaler(first) != step.name_of_scaler(second):
        return False
    between = [node for node in ast.walk(step.function) if start < position(node) < end]
    if any(isinstance(node, LEAVING) for node in between):
        return False
    mine = {guard.test for guard in guards(module, first)}
    others = [guard for guard in guards(module, second) if guard.test not in mine]
    if guard_facts(module, first) != guard_facts(module, second):
        return False
    stores = [node for node in between if isinstance(getattr(node, "ctx", None), ast.Store)]
    changed = {ast.unparse(node) for node in stores}
    named = {ast.unparse(node) for node in ast.walk(second) if isinstance(node, ast.Name | ast.Attribute)}
    scaler = step.name_of_scaler(first)
    return changed.isdisjoint(named) and all(
        guard.facts == ((scaler, True),) or _keeps(guard.test, changed) for guard in others
    )


def may_use(step: ScalerStep, first: ast.Call, second: ast.Call, *kinds: UseKind) -> bool:
    """Whether something that is called between may use the scaler so: where others do than this function."""
    uses = step.scaler.uses_of(*kinds)
    here = [use.call for use in uses if use.call is not None and not _is_in_lambda(step.module, use.call)]
    if len(step.of(*kinds)) == len(here) == len(uses):
        return False
    own = {use.call for use in step.uses}
    return any(
        position(first) < position(call) < position(second)
        and call not in own
        and not exclusive(step.module, call, second)
        for call in calls_of(step.module, step.function)
    )


def _is_in_lambda(module: ModuleNames, node: ast.AST) -> bool:
    return any(isinstance(parent, ast.Lambda) for parent in module.ancestors(node))


def _is_caught(module: ModuleNames, call: ast.Call) -> bool:
    """Whether something may wait for what is raised there: ``except``, ``suppress(...)``, ``pytest.raises(...)``."""
    managers = [item for parent in module.ancestors(call) if isinstance(parent, With) for item in parent.items]
    return any(tries(module, call)) or any(word in ast.unparse(item).lower() for item in managers for word in CAUGHT)


def _keeps(test: ast.expr, changed: Collection[str]) -> bool:
    """Whether a condition is of names alone, none of which is bound anew."""
    return all(
        isinstance(node, PLAIN) or (isinstance(node, ast.Name) and node.id not in changed) for node in ast.walk(test)
    )


def _blocks(module: ModuleNames, node: ast.AST) -> list[ast.AST]:
    """What holds a node and may run it at another time, or not at all; conditions aside."""
    return [parent for parent in module.ancestors(node) if not isinstance(parent, ast.If | ast.Expr)]
