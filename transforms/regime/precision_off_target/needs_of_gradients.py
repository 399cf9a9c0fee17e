"""Gradients that the code of a run takes into its own hands: under a trainer's float16 they are scaled, or are not."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Place
from ....codemod.python.arguments import receiver_of
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import exclusive, function_of, guards
from ....codemod.source.project import Project
from ....codemod.torch.scalers import scalers
from ....codemod.trainers.reading.declarations import scopes_of

TRAINERS = ("accelerate", "lightning", "hf_trainer", "trl")
"""Trainers whose scaler works where their own methods differentiate."""
CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm", "clip_grads_with_norm_")
UNSCALING = ("clip_grad_norm_", "clip_grad_value_", "unscale_gradients")
"""What an Accelerator unscales the gradients for (`accelerator.py`, accelerate 1.15)."""
BY_HAND = ("torch.autograd.grad", "torch.autograd.backward", "torch.optim.LBFGS")
"""What differentiates beside the trainer; and an optimizer that no scaler steps."""
HOOKED = ("register_hook", "register_full_backward_hook", "register_post_accumulate_grad_hook")
UNSCALED_BY_THEN = ("on_before_optimizer_step", "configure_gradient_clipping", "step", "zero_grad")
"""Methods that run when a trainer, or a scaler, has unscaled the gradients: of modules, callbacks and optimizers."""


def gradients_by_hand(project: Project, behind: tuple[ModuleNames, ...]) -> Place | None:
    """Where a run whose trainer scales the loss in float16 differentiates, or handles gradients, past that trainer."""
    paths = {module.path for module in behind}
    scaled = (scope for scope in scopes_of(project) if scope.framework.scales_loss and scope.framework.id in TRAINERS)
    if not any(scope.path in paths and scope.kind != "file" for scope in scaled):
        return None
    return next((place for module in behind for place in _by_hand(project, module)), None)


def _by_hand(project: Project, module: ModuleNames) -> Iterator[Place]:
    if any(module is item for scaler in scalers(project) for item in scaler.modules):
        return
    backwards = module.calls_by_name.get("backward", ())
    given = [call for call in backwards if call.args]
    for call in backwards:
        is_alone = not call.args and not any(exclusive(module, call, other) for other in given)
        if is_alone and receiver_of(call) is not None:
            yield module.place(call, f"{ast.unparse(call)} is not the trainer's: in float16 nothing scales it")
    for call in module.calls:
        if (module.qualified(call.func) or "").startswith(BY_HAND):
            yield module.place(
                call, f"{ast.unparse(call.func)} differentiates beside the trainer, which scales in float16"
            )
    for name in (*CLIPS, *HOOKED):
        for call in module.calls_by_name.get(name, ()):
            if name in HOOKED or (module.qualified(call.func) or "").startswith("torch."):
                yield module.place(call, f"{ast.unparse(call.func)} gets gradients that are scaled in float16")
    for call in (call for name in UNSCALING for call in module.calls_by_name.get(name, ())):
        if not (module.qualified(call.func) or "").startswith("torch.") and _is_of_each_pass(module, call):
            yield module.place(
                call,
                f"{ast.unparse(call.func)} unscales float16 gradients in each pass: the second before a step raises",
            )
    for node in module.attribute_loads.get("grad", ()):
        function = function_of(module, node)
        if getattr(function, "name", "") not in UNSCALED_BY_THEN and not _is_test(module, node):
            yield module.place(node, f"{ast.unparse(node)} is scaled in float16")


def _is_of_each_pass(module: ModuleNames, call: ast.Call) -> bool:
    """Whether a clip of accelerate's may run in passes without a step: a test of `sync_gradients` keeps it out."""
    around = {ast.unparse(guard.test) for guard in guards(module, call)}
    if any("sync_gradients" in test for test in around):
        return False
    steps = module.calls_inside.get((function_of(module, call), "step"), ())
    tests = {ast.unparse(guard.test) for step in steps for guard in guards(module, step)}
    return bool(module.calls_by_name.get("accumulate")) or not tests <= around


def _is_test(module: ModuleNames, node: ast.AST) -> bool:
    """``if p.grad is not None``, ``torch.no_grad``'s and modules' own: nothing is made of the numbers."""
    parent = module.parents.get(node)
    return (isinstance(parent, ast.Compare) and any(isinstance(op, ast.Is | ast.IsNot) for op in parent.ops)) or (
        (module.qualified(node) or "").startswith("torch.")
    )
