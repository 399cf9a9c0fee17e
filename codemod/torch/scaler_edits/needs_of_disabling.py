"""What must hold so that a scaler can be switched off, or go, and everything else stays as it is."""

from __future__ import annotations

from collections.abc import Iterator

from ...proof.needs import Known, Need, SameResult
from ...python.paths import calls_of, exclusive, guard_facts, position
from ...source.project import Project
from ..clipping import Clip, clips_of
from ..scaler_steps import ScalerStep, steps_of
from ..scalers import Scaler

_WHY = SameResult("bfloat16 gradients have the range of float32; scaling only multiplies and divides by a power of two")


def needs_of_disabling(project: Project, scaler: Scaler) -> tuple[Need, ...]:
    """That no clip works on scaled gradients today: without the scaler its limit would begin to hold."""
    clip = next(_scaled_clips(project, scaler), None)
    if clip is None:
        return (_WHY,)
    place = f"{clip.module.path}:{clip.call.lineno}"
    return (_WHY, Known(False, f"{clip.words} ({place}) may clip scaled gradients today, and clips the true ones then"))


def _scaled_clips(project: Project, scaler: Scaler) -> Iterator[Clip]:
    for step in steps_of(scaler):
        for clip in clips_of(project, step.module, step.function):
            if clip.call not in step.of("step") and not _is_unscaled(step, clip):
                yield clip


def _is_unscaled(step: ScalerStep, clip: Clip) -> bool:
    """Whether the gradients are certainly unscaled above the clip, or it never runs together with the scaler."""
    module, call = step.module, clip.call
    scaled = [item for item in step.of("scale", "step") if not exclusive(module, item, call)]
    if not scaled:
        return True
    around = guard_facts(module, call)
    return any(
        getattr(item.func, "attr", "") == "unscale_"
        and position(item) < position(call)
        and guard_facts(module, item) <= around
        for item in calls_of(module, step.function)
    )
