"""The fix that moves unscaling and clipping into the ``if`` that steps and updates."""

from __future__ import annotations

import ast

from ....codemod.model import Fix
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.python.paths import Guard
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep


def fix(project: Project, step: ScalerStep, call: ast.Call, guard: Guard) -> Fix | None:
    """The move of the statement around ``call`` (or of it and the clip below it); None where it is not that plain."""
    module = step.module
    target = next((node for node in module.ancestors(guard.test) if isinstance(node, ast.stmt)), None)
    if guard.leaving is not None or not guard.holds or not isinstance(target, ast.If) or target.test is not guard.test:
        return None
    moved = _statements_between(step, call, target)
    text = _lines_of(step, moved, target) if moved and _is_plain(step, moved) else None
    if text is None:
        return None
    edits = [module.remove(statement) for statement in moved]
    edits.append(module.insert(target.body[0], text))
    message = "unscale and clip only where the optimizer steps; without accumulation nothing changes"
    why = SameResult("a second unscale_ before the step raises; without accumulation every pass steps")
    return proved(project, "move", message, edits, why)


def _statements_between(step: ScalerStep, call: ast.Call, target: ast.If) -> list[ast.stmt]:
    """The siblings from the one that holds ``call`` up to ``target``; empty when ``call`` stands elsewhere."""
    block = getattr(step.module.parents[target], "body", [])
    if target not in block:
        return []
    holders = {call, *step.module.ancestors(call)}
    above: list[ast.stmt] = block[: block.index(target)]
    first = next((index for index, statement in enumerate(above) if statement in holders), None)
    return above[first:] if first is not None else []


def _is_plain(step: ScalerStep, moved: list[ast.stmt]) -> bool:
    """Whether the statements only unscale, clip and assert, and bind nothing that may be read elsewhere."""
    inner = [node for statement in moved for node in ast.walk(statement)]
    if any(isinstance(node, ast.Name | ast.Attribute) and not isinstance(node.ctx, ast.Load) for node in inner):
        return False
    if any(isinstance(node, ast.Return | ast.Continue | ast.Break | ast.Yield | ast.Await) for node in inner):
        return False
    unscaling = {id(item) for item in step.of("unscale_")}
    calls = [node for node in inner if isinstance(node, ast.Call)]
    return all(id(node) in unscaling or _belongs_to_a_clip(node) for node in calls)


def _belongs_to_a_clip(call: ast.Call) -> bool:
    name = ast.unparse(call.func).lower()
    return "clip" in name or name.endswith(("parameters", "trainable_params"))


def _lines_of(step: ScalerStep, moved: list[ast.stmt], target: ast.If) -> str | None:
    """The complete lines of ``moved``, not indented; None where a comment or another statement would be lost."""
    document = step.module.document
    first, last, following = (document.span(node) for node in (moved[0], moved[-1], target))
    indent = document.line(first.row)[: first.column - 1]
    around = [document.line(first.row - 1), *map(document.line, range(last.end_row + 1, following.row))]
    if indent.strip() or any("#" in line for line in around):
        return None
    after = document.line(last.end_row)[last.end_column - 1 :].strip()
    constants = [node for statement in moved for node in ast.walk(statement) if isinstance(node, ast.Constant)]
    several = any(node.end_lineno != node.lineno for node in constants)
    if several or (after and not after.startswith("#")):
        return None
    return "\n".join(document.line(row).removeprefix(indent) for row in range(first.row, last.end_row + 1))
