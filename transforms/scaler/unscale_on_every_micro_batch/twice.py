"""``unscale_`` of an optimizer that is unscaled or stepped already, straight above in the same pass."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ....codemod.model import Draft, Fix
from ....codemod.proof.needs import SameResult
from ....codemod.proof.proving import proved
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.source.project import Project
from ....codemod.torch.scaler import UseKind
from ....codemod.torch.scaler_steps import ScalerStep
from ..hidden_uses import is_done_otherwise, is_hidden
from ..straight_calls import follows, may_use

HARMLESS: tuple[UseKind, ...] = ("scale", "get_scale", "is_enabled", "none-test", "state_dict", "unscale_", "step")
"""Uses of a scaler that leave an unscaled optimizer one, and give the scaler to nobody who could update it."""


def unscaled_twice(project: Project, step: ScalerStep) -> Iterator[Draft]:
    """Calls that raise in each pass that comes to them, whatever the batch."""
    scaler, module = step.scaler, step.module
    if scaler.kind != "direct" or is_hidden(scaler) or is_done_otherwise(project, "update"):
        return
    calls = step.of("unscale_", "step")
    for optimizer in dict.fromkeys(map(step.text_of_optimizer, calls)):
        same = [call for call in calls if step.text_of_optimizer(call) == optimizer] if optimizer else []
        for first, call in pairwise(same):
            straight = follows(step, first, call, HARMLESS) and not may_use(step, first, call, "update")
            if call in step.of("unscale_") and straight and is_reached(project, module, call):
                yield _draft(project, step, first, call)


def _draft(project: Project, step: ScalerStep, first: ast.Call, call: ast.Call) -> Draft:
    is_step, module = first in step.of("step"), step.module
    said = "unscale_() is being called after step()" if is_step else "unscale_() has already been called"
    message = f"the gradients of this optimizer are unscaled a second time in one pass: RuntimeError, {said!r}"
    places = [module.place(first, "the step unscales them" if is_step else "they are unscaled here")]
    places.append(step.scaler.module.place(step.scaler.call, "the scaler is created here"))
    fixes: list[Fix] = []
    if not is_step:
        why = SameResult("a second unscale_ before the update raises, and does nothing where the scaler is off")
        fixes.append(proved(project, "once", "unscale once", [module.remove(module.statement_of(call))], why))
    return Draft.at(module, call, message, places, fixes)
