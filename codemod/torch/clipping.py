"""Where gradients are clipped: by torch, by a model's own method, or by a function of the project that does so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.functions import FunctionTarget, called_function
from ..python.names import ModuleNames, attribute_chain, resolve
from ..python.paths import calls_of
from ..source.project import Project

CLIPS = (
    "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.clip_grad_norm",
    "torch.nn.utils.clip_grad_value_",
    "torch.nn.utils.clip_grad.clip_grad_norm_",
    "torch.nn.utils.clip_grad.clip_grad_norm",
    "torch.nn.utils.clip_grad.clip_grad_value_",
    "timm.utils.dispatch_clip_grad",
    "timm.utils.clip_grad.dispatch_clip_grad",
    "timm.utils.adaptive_clip_grad",
    "timm.utils.agc.adaptive_clip_grad",
)
METHODS = ("clip_grad_norm_", "clip_grad_value_")
"""Methods of models (FSDP has ``clip_grad_norm_``)."""
CLIP_NAMES = tuple(dict.fromkeys((*METHODS, *(name.rpartition(".")[2] for name in CLIPS))))
IN_PLACE = ("clamp_", "clip_")
"""``p.grad.clamp_(...)``, also through ``.data``."""
OTHER_OWNERS = ("accelerator", "fabric", "engine", "trainer", "strategy", "plugin", "optim", "scaler")
"""Words in the name of an object that looks after unscaling itself (accelerate, Fabric, DeepSpeed, FairScale)."""
MAX_HOPS = 3


@dataclass(frozen=True, slots=True, eq=False)
class Clip:
    """One call in a function that clips gradients."""

    module: ModuleNames
    call: ast.Call
    inside: FunctionTarget | None
    """The project's function that does it, when the call only leads there."""

    @property
    def words(self) -> str:
        """How the clip is spelled, for a message."""
        return ".".join(attribute_chain(self.call.func) or ["clip"])


def clips_of(project: Project, module: ModuleNames, function: ast.AST) -> Iterator[Clip]:
    """The calls of ``function`` that clip gradients, in source order."""
    for call in calls_of(module, function):
        if clips_itself(project, module, call):
            yield Clip(module, call, None)
            continue
        target = called_function(project, module, call)
        if target is not None and _clips_inside(project, target, (function,)):
            yield Clip(module, call, target)


def clips_itself(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether this very call clips gradients (of a plain model, not of a wrapper that unscales by itself)."""
    if not isinstance(call.func, ast.Name | ast.Attribute):
        return False
    if resolve(project, module, call.func) in CLIPS:
        return True
    if not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr in IN_PLACE:
        return owner_of_gradient(call.func.value) is not None
    chain = attribute_chain(call.func)
    if chain is None or call.func.attr not in METHODS or module.qualified(call.func) is not None:
        return False
    owner = ".".join(chain[:-1]).lower()
    return owner != "self" and not any(word in owner for word in OTHER_OWNERS)


def owner_of_gradient(node: ast.expr | None) -> ast.expr | None:
    """``p`` of ``p.grad`` and ``p.grad.data``."""
    if isinstance(node, ast.Attribute) and node.attr == "data":
        node = node.value
    return node.value if isinstance(node, ast.Attribute) and node.attr == "grad" else None


def _clips_inside(project: Project, target: FunctionTarget, seen: tuple[ast.AST, ...]) -> bool:
    inner = list(calls_within(project, target, seen))
    if any(isinstance(call.func, ast.Attribute) and call.func.attr == "backward" for _, call in inner):
        return False  # a whole training step of its own
    return any(clips_itself(project, module, call) for module, call in inner)


def calls_within(
    project: Project, target: FunctionTarget, seen: tuple[ast.AST, ...] = ()
) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The calls of a project's function and of the functions it calls in turn (MAX_HOPS deep), each function once."""
    known, level = {*seen}, [target]
    for hop in range(len(seen), MAX_HOPS + 1):
        further: list[FunctionTarget] = []
        for each in level:
            if each.node in known:
                continue
            known.add(each.node)
            for call in calls_of(each.module, each.node):
                yield each.module, call
                inner = called_function(project, each.module, call) if hop < MAX_HOPS else None
                further += [inner] if inner is not None else []
        level = further
