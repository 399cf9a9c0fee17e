"""A scaler that unscales and steps, and that no loss is given to."""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.source.project import Project
from ....codemod.torch.scaler_steps import passes_of
from ....codemod.torch.scalers import Scaler
from ..hidden_uses import is_done_otherwise, is_hidden
from ..passes import calls_named, leads_to, leads_to_backward

ASKING = ("unscale_", "step", "update")
"""Methods that need the scale, which the first ``scale`` makes (``GradScaler._check_scale_growth_tracker``)."""


def never_scaled(project: Project, scaler: Scaler) -> Iterator[Draft]:
    """``loss.backward()`` and then ``scaler.step(optimizer)``, where nothing in the project scales a loss."""
    if scaler.kind != "direct" or scaler.uses_of("scale") or is_hidden(scaler) or is_done_otherwise(project, "scale"):
        return
    for each in passes_of(scaler):
        first = next(iter(each.of(*ASKING)), None)
        if first is None or not each.of("step") or leads_to_backward(project, each):
            continue
        backwards = [call for call in calls_named(each, "backward") if leads_to(each, call, first)]
        if backwards and is_reached(project, each.module, first):
            name = each.name_of_scaler(first)
            message = (
                f"no loss is scaled: `{name}.scale(loss).backward()` is missing, and the first call of `{name}` raises "
                "AssertionError, as its scale is made by `scale`"
            )
            places = [each.module.place(backwards[-1], "the backward pass of a loss that is not scaled")]
            yield Draft.at(each.module, first, message, [*places, scaler.module.place(scaler.call, "the scaler")])
