"""The edit that puts ``scaler.unscale_(optimizer)`` before a clip, where that is certainly called once per step."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ....codemod.model import Edit
from ....codemod.python.paths import Guard, guards, loops, position
from ....codemod.torch.clipping import Clip
from ....codemod.torch.scaler_steps import ScalerStep


def unscale_before(step: ScalerStep, clip: Clip, clips: Sequence[Clip]) -> tuple[Edit, ...] | None:
    """The edits that unscale before ``clip``, the first of ``clips``; None where that is not right on every path.

    An ``unscale_`` that stands after the clip, in the same block, moves up.
    """
    optimizers = {step.text_of_optimizer(call) for call in step.of("step")}
    steps = step.of("step")
    if len(optimizers) != 1 or len(steps) != 1 or "" in optimizers:
        return None
    following = steps[0]
    target = _statement_for(step, clip.call, following)
    optimizer = step.optimizer(following)
    if target is None or not isinstance(optimizer, ast.Name | ast.Attribute):
        return None
    if not all(_comes_after(step, target, other) for other in clips):
        return None
    line = f"{step.name_of_scaler(following)}.unscale_({optimizers.pop()})"
    header = _header(step, target, following)
    late = _late(step, target, following)
    if header is None or late is None:
        return None
    text = f"if {header}:\n    {line}" if header else line
    removed = [step.module.remove(statement) for statement in late]
    return step.module.insert(target, text), *removed


def _late(step: ScalerStep, target: ast.stmt, following: ast.Call) -> list[ast.stmt] | None:
    """The statements below ``target`` that unscale too late and have to go; None where they cannot simply go."""
    statements = [step.module.statement_of(call) for call in step.of("unscale_")]
    for statement, call in zip(statements, step.of("unscale_"), strict=True):
        same = step.module.parents[statement] is step.module.parents[target]
        between = position(target) < position(call) < position(following)
        alone = isinstance(statement, ast.Expr) and statement.value is call
        if not (same and between and alone) or step.text_of_optimizer(call) != step.text_of_optimizer(following):
            return None
    return statements if len(statements) < 2 else None


def _statement_for(step: ScalerStep, clip: ast.Call, following: ast.Call) -> ast.stmt | None:
    """The statement to insert before: the clip's own, or the loop over parameter groups around it."""
    inner, outer = loops(step.module, clip), loops(step.module, following)
    if inner[len(inner) - len(outer) :] != outer or len(inner) < len(outer):
        return None
    extra = inner[: len(inner) - len(outer)]
    if any(scale in set(ast.walk(loop)) for loop in extra for scale in step.of("scale")):
        return None
    return extra[-1] if extra else step.module.statement_of(clip)


def _comes_after(step: ScalerStep, target: ast.stmt, other: Clip) -> bool:
    """Whether the other clip is unscaled too by a line before ``target``: it stands in the same block or deeper."""
    block = step.module.parents[target]
    return position(other.call) >= position(target) and block in step.module.ancestors(other.call)


def _header(step: ScalerStep, target: ast.stmt, following: ast.Call) -> str | None:
    """The test that the inserted line needs: "" for none, None where the step does not follow every clip."""
    before = {fact for guard in guards(step.module, target) for fact in guard.facts}
    missing = [item for item in guards(step.module, following) if not set(item.facts) <= before]
    if not missing:
        return ""
    scales = step.of("scale")
    known = {fact for guard in guards(step.module, scales[0]) for fact in guard.facts} if scales else set()
    if len(missing) != 1 or not _is_repeatable(missing[0]) or not set(missing[0].facts) <= known:
        return None
    test = ast.unparse(missing[0].test)
    return test if missing[0].holds else f"not ({test})"


def _is_repeatable(guard: Guard) -> bool:
    """Whether the test can be asked once more: names, attributes and comparisons only."""
    parts = ast.Name | ast.Attribute | ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant
    rest = ast.expr_context | ast.cmpop | ast.boolop | ast.unaryop
    return guard.leaving is None and all(isinstance(node, parts | rest) for node in ast.walk(guard.test))
