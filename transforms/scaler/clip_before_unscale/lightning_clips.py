"""``self.clip_gradients(...)`` in manual optimization: Lightning unscales in ``optimizer.step``, behind it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.files import is_test
from ....codemod.python.functions import all_bases
from ....codemod.python.names import ModuleNames, attribute_chain, checked_modules
from ....codemod.python.paths import calls_of, exclusive, function_of, position
from ....codemod.python.scopes import is_off
from ....codemod.source.project import Project
from ..lightning_precision import float16_of_lightning

MESSAGE = (
    "in manual optimization gradients are clipped before Lightning unscales them, which it does in the optimizer's "
    "step: in float16 they are still multiplied by the loss scale (65536 at the start)"
)


def clips_before_lightning(project: Project) -> Iterator[Draft]:
    """Where every trainer of the project computes in float16."""
    for module in checked_modules(project, ("clip_gradients(",), ("manual_backward(",)):
        chosen = (
            project.fact(float16_of_lightning)
            if "scaler" not in module.document.text and not is_test(module.path)
            else None
        )
        for clip in module.calls_by_name.get("clip_gradients", []) if chosen is not None else ():
            optimizer = _clipped(project, module, clip)
            around = _backward_and_step(module, clip, optimizer) if optimizer is not None else None
            if around is not None and chosen is not None:
                backward, step = around
                places = (
                    module.place(backward, "the loss is scaled here"),
                    module.place(step, "gradients are unscaled only here"),
                    chosen.saying("float16 is chosen here"),
                )
                yield Draft.at(module, clip, MESSAGE, places)


def _clipped(project: Project, module: ModuleNames, clip: ast.Call) -> str | None:
    """The optimizer whose gradients are clipped by a method of Lightning; without a threshold it does nothing."""
    owner = module.scope_of(clip).enclosing_class
    if owner is None or "clip_gradients" in owner.bindings or attribute_chain(clip.func) != ["self", "clip_gradients"]:
        return None
    given = dict(zip(("optimizer", "gradient_clip_val"), clip.args, strict=False))
    given |= {item.arg: item.value for item in clip.keywords if item.arg is not None}
    threshold = given.get("gradient_clip_val")
    does_nothing = threshold is None or is_off(threshold)
    bases = [attribute_chain(base) or [""] for _, base in all_bases(project, module, owner)]
    if does_nothing or "optimizer" not in given or not any(chain[-1] == "LightningModule" for chain in bases):
        return None
    return ast.unparse(given["optimizer"])


def _backward_and_step(module: ModuleNames, clip: ast.Call, optimizer: str) -> tuple[ast.Call, ast.Call] | None:
    """The backward pass before the clip, and the step behind it, with no other step between."""
    calls = [call for call in calls_of(module, function_of(module, clip)) if not exclusive(module, call, clip)]
    steps = [call for call in calls if ast.unparse(call.func) == f"{optimizer}.step"]
    scaled = [call for call in calls if ast.unparse(call.func) == "self.manual_backward"]
    before = [call for call in scaled if position(call) < position(clip)]
    after = [call for call in steps if position(call) > position(clip)]
    stepped = before and any(position(before[-1]) < position(call) < position(clip) for call in steps)
    return (before[-1], after[0]) if before and after and not stepped else None
