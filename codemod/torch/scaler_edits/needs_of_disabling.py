"""What must hold so that a scaler can be switched off, or go, and everything else stays as it is."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from ...proof.needs import Known, Need, SameResult
from ...purpose.imports import connected_modules
from ...python.names import ModuleNames, modules_with
from ...python.paths import calls_of, exclusive, function_of, guard_facts, position
from ...source.project import Project
from ..clipping import CLIP_NAMES, Clip, clips_itself, clips_of
from ..scaler_steps import ScalerStep, steps_of
from ..scalers import Scaler

_WHY = SameResult("bfloat16 gradients have the range of float32; scaling only multiplies and divides by a power of two")


SHARDED = ("FullyShardedDataParallel", "fully_shard")


def needs_of_disabling(project: Project, scaler: Scaler) -> tuple[Need, ...]:
    """That no clip works on scaled gradients today (without the scaler its limit would begin to hold), and no FSDP."""
    clip = next(scaled_clips(project, scaler), None)
    found = [_WHY, *_unsharded(project, scaler)]
    if clip is not None:
        words = f"{clip.words} ({_place(clip.module, clip.call)}) may clip scaled gradients today"
        found.append(Known(False, f"{words}, and clips the true ones then"))
    return tuple(found)


def no_longer_skipped(project: Project, scaler: Scaler) -> str:
    """What a fix's message says of steps that the scaler keeps from the optimizer, and of clips that see them then."""
    beside = (clip for step in steps_of(scaler) for clip in clips_of(project, step.module, step.function))
    clips = (*beside, *_clips_elsewhere(project, scaler))
    clip = next((item for item in clips if not _raises(item.call)), None)
    said = "steps with inf or NaN gradients are no longer skipped"
    if clip is None:
        return said
    return f"{said}, and {clip.words} ({_place(clip.module, clip.call)}) acts on them"


def _raises(call: ast.Call) -> bool:
    """``error_if_nonfinite=True``: the clip raises."""
    given = [item.value for item in call.keywords if item.arg == "error_if_nonfinite"]
    return any(not isinstance(item, ast.Constant) or bool(item.value) for item in given)


def _unsharded(project: Project, scaler: Scaler) -> Iterator[Need]:
    """No FSDP near the scaler: one that is not made for shards, or an optimizer of other weights, raises today."""
    near = {scaler.module, *connected_modules(project, scaler.module), *(step.module for step in steps_of(scaler))}
    where = sharded_at(project, near)
    if where:
        yield Known(False, f"FSDP ({where}) may shard the model: what the scaler raises today would be silent then")


def sharded_at(project: Project, near: Collection[ModuleNames]) -> str:
    """Where some modules shard a model; empty: nowhere."""
    for module in modules_with(project, SHARDED):
        calls = module.calls if module in near else []
        call = next((item for item in calls if (module.qualified(item.func) or "").endswith(SHARDED)), None)
        if call is not None:
            return _place(module, call)
    return ""


def _place(module: ModuleNames, call: ast.Call) -> str:
    return f"{module.path}:{call.lineno}"


def scaled_clips(project: Project, scaler: Scaler) -> Iterator[Clip]:
    """The clips that may work on scaled gradients: beside the step, or elsewhere where nothing unscales at all."""
    for step in steps_of(scaler):
        for clip in clips_of(project, step.module, step.function):
            if clip.call not in step.of("step") and not _is_unscaled(step, clip):
                yield clip
    if not scaler.uses_of("unscale_", "private", "bound-method", "called"):
        yield from _clips_elsewhere(project, scaler)


def _clips_elsewhere(project: Project, scaler: Scaler) -> Iterator[Clip]:
    """The clips in other functions of the files that step with the scaler."""
    stepping = [(step.module, step.function) for step in steps_of(scaler)]
    for module in dict.fromkeys(module for module, _ in stepping):
        for call in (item for name in CLIP_NAMES for item in module.calls_by_name.get(name, ())):
            if (module, function_of(module, call)) not in stepping and clips_itself(project, module, call):
                yield Clip(module, call, None)


def _is_unscaled(step: ScalerStep, clip: Clip) -> bool:
    """Whether the gradients are certainly unscaled above the clip, or it never runs together with the scaler."""
    module, call = step.module, clip.call
    scaled = [item for item in step.of("scale", "step") if not exclusive(module, item, call)]
    if not scaled:
        return True
    around = guard_facts(module, call)
    around |= frozenset.intersection(*(guard_facts(module, item) for item in scaled))
    return any(
        getattr(item.func, "attr", "") == "unscale_"
        and position(item) < position(call)
        and guard_facts(module, item) <= around
        for item in calls_of(module, step.function)
    )
