"""Clips of torch behind ``accelerator.backward`` or ``engine.backward``, which scale the loss in float16.

Only accelerate's own clip unscales. DeepSpeed's optimizers unscale and clip in their step, by ``gradient_clipping``;
under ZeRO they have taken the gradients by then (``deepspeed/runtime/fp16/fused_optimizer.py``, 0.19.6).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.python.names import ModuleNames, checked_modules
from ....codemod.python.paths import calls_of, exclusive, function_of, position
from ....codemod.source.project import Project
from ....codemod.torch.clipping import clips_of
from ..engines import engine_of, float16_of_accelerate, float16_runs

MESSAGE = (
    "gradients are clipped past the Accelerator: in float16 they are still multiplied by the loss scale (65536 at the "
    "start); accelerator.clip_grad_norm_ unscales them first"
)
ENGINE = (
    "gradients are clipped past the engine: in float16 DeepSpeed has scaled them, and taken them away under ZeRO; "
    "gradient_clipping in its configuration clips the true ones"
)


def clips_past_engine(project: Project) -> Iterator[Draft]:
    """Where each run of the engine computes in float16."""
    for module in checked_modules(project, ("deepspeed",), ("initialize",), ("clip_grad",)):
        for made in module.calls_by_name.get("initialize", ()):
            engine = engine_of(module, made)
            passes = [call for call in module.calls_by_name.get("backward", ()) if ast.unparse(_owner(call)) == engine]
            runs = float16_runs(project, module, made) if engine and passes else []
            for backward in passes if runs else ():
                for clip in clips_of(project, module, function_of(module, backward)):
                    seen = _sees_scaled(module, backward, clip.call) and is_reached(project, module, clip.call)
                    if seen and not ast.unparse(_owner(clip.call)).startswith(engine):
                        places = (module.place(backward, "the engine scales the loss here"), runs[0].place)
                        yield Draft.at(module, clip.call, ENGINE, places)


def clips_past_accelerator(project: Project) -> Iterator[Draft]:
    """Where a stated run computes in float16."""
    for module in checked_modules(project, ("ccelerat",), ("backward(",), ("clip_grad",)):
        for backward in module.calls_by_name.get("backward", []):
            if float16_of_accelerate(project, module, backward) is None:
                continue
            for clip in clips_of(project, module, function_of(module, backward)):
                is_own = ast.unparse(_owner(clip.call)) == ast.unparse(_owner(backward))
                seen = not is_own and _sees_scaled(module, backward, clip.call)
                stated = float16_of_accelerate(project, module, backward, clip.call) if seen else None
                if stated is not None and is_reached(project, module, clip.call):
                    places = (module.place(backward, "the loss is scaled here"), stated)
                    yield Draft.at(module, clip.call, MESSAGE, places)
                    break


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _sees_scaled(module: ModuleNames, backward: ast.Call, clip: ast.Call) -> bool:
    """Whether the clip runs behind the backward pass, before the step, and nothing unscales between."""
    names = ("unscale_gradients", "step", "zero_grad")
    between = [
        call
        for call in calls_of(module, function_of(module, backward))
        if position(backward) < position(call) < position(clip) and isinstance(call.func, ast.Attribute)
    ]
    ends = any(call.func.attr in names for call in between if isinstance(call.func, ast.Attribute))
    return position(backward) < position(clip) and not ends and not exclusive(module, backward, clip)
