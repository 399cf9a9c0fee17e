"""Updates between the steps of two optimizers whose gradients come from one backward pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.python.functions import called_function
from ....codemod.python.paths import calls_of, guard_facts, loops, position
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import ScalerStep

MESSAGE = (
    "`scaler.update()` between the steps of two optimizers: whenever it changes the scale, the second one divides its "
    "gradients by the new one and steps half or twice as far; update once, after both"
)
GRADIENTS = ("backward", "grad", "closure")
"""Words in names of calls that make gradients, or clear them."""


def updates_between(project: Project, step: ScalerStep) -> Iterator[Draft]:
    """``step(a)``, ``update()``, ``step(b)``: the gradients of ``b`` have the scale that was."""
    steps = step.of("step")
    for update in step.of("update"):
        before = [call for call in step.of("step", "scale") if position(call) < position(update)]
        stepped = {step.text_of_optimizer(call) for call in before if call in steps}
        later = next((call for call in step.of("step", "scale") if position(call) > position(update)), None)
        if later not in steps or later is None or not stepped or step.text_of_optimizer(later) in stepped:
            continue
        if all(_runs_with(step, call, later) for call in (*before, update)) and _is_same_pass(
            project, step, update, later
        ):
            place = step.module.place(later, "it steps after the update, with gradients of the same backward pass")
            yield Draft.at(step.module, update, MESSAGE, [place])


def _runs_with(step: ScalerStep, call: ast.Call, later: ast.Call) -> bool:
    """Whether a call runs in each pass in which the later step does."""
    module = step.module
    return loops(module, call) == loops(module, later) and guard_facts(module, call) <= guard_facts(module, later)


def _is_same_pass(project: Project, step: ScalerStep, update: ast.Call, later: ast.Call) -> bool:
    """Whether nothing between them may make gradients anew."""
    calls = calls_of(step.module, step.function)
    between = [call for call in calls if position(update) < position(call) < position(later)]
    named = any(word in ast.unparse(call.func).lower() for call in between for word in GRADIENTS)
    return not named and not any(called_function(project, step.module, call) for call in between)


def updates_before(step: ScalerStep) -> Iterator[tuple[ast.Call, ast.Call, bool]]:
    """``update()``, ``step(a)``: an update, the only step, which runs behind it, and whether ``unscale_`` has run."""
    steps, scales = step.of("step"), step.of("scale")
    if len(steps) != 1 or len(step.scaler.uses_of("step", "unscale_")) != len(step.of("step", "unscale_")):
        return
    for update in step.of("update"):
        between = [call for call in scales if position(update) < position(call) < position(steps[0])]
        if update.args or update.keywords or between or not _runs_as(step, update, steps[0]):
            continue
        before = [call for call in step.of("unscale_") if position(call) < position(update)]
        same = [call for call in before if step.text_of_optimizer(call) == step.text_of_optimizer(steps[0])]
        counts = not before or (bool(same) and all(_runs_with(step, call, update) for call in same))
        scaled = any(position(call) < position(update) for call in scales)
        if counts and scaled and len(before) == len(step.of("unscale_")):
            yield update, steps[0], bool(before)


def _runs_as(step: ScalerStep, update: ast.Call, call: ast.Call) -> bool:
    """Whether an update runs before a step, in just the passes of it."""
    module = step.module
    is_before = position(update) < position(call) and loops(module, update) == loops(module, call)
    return is_before and guard_facts(module, update) == guard_facts(module, call)
