"""A scaler whose optimizer holds bfloat16 parameters: their gradients are bfloat16, which CUDA cannot unscale."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.half_weights import SteppedWeights, stepped_weights
from ....codemod.model import Edit, Fix, Place
from ....codemod.purpose.regimes import Regime, conditions_of, speaks_of_precision
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16
from ....codemod.torch.imported import torch_at
from ....codemod.torch.scaler_edits.can_disable import can_disable
from ....codemod.torch.scaler_edits.disable_scaler import with_condition
from ....codemod.torch.scaler_edits.drop_scaler import fix as drop
from ....codemod.torch.scaler_steps import steps_of
from ....codemod.torch.scalers import Scaler

ERROR = "'\"_amp_foreach_non_finite_check_and_unscale_cuda\" not implemented for 'BFloat16''"


def model_in_bf16(project: Project, scaler: Scaler) -> SteppedWeights | None:
    """The bfloat16 model that ``scaler`` certainly steps on CUDA, or None."""
    if scaler.kind != "direct" or _is_for_cpu(scaler) or not _is_surely_on(project, scaler):
        return None
    for step in steps_of(scaler):
        for call in step.of("step"):
            optimizer = step.optimizer(call)
            model = stepped_weights(project, step.module, optimizer, BF16) if optimizer is not None else None
            if model is not None:
                return model
    return None


def places(model: SteppedWeights) -> Iterator[Place]:
    """Where the model gets its dtype, and where the optimizer takes its parameters."""
    yield from model.weights.places
    yield model.module.place(model.optimizer, "the optimizer gets its parameters here")


def fixes(project: Project, scaler: Scaler, regime: Regime) -> list[Fix]:
    """Without float16 autocast the scaler goes; with autocast's own default that region computes in bfloat16 too."""
    half = [region.autocast for region in regime.regions if FP16 in region.values]
    if not half:
        dropped = drop(project, scaler)
        return [dropped] if dropped is not None else _disabled(project, scaler, [])
    if any(item.dtype_node is not None or item.call is None or not item.understood for item in half):
        return []
    edits = [
        item.module.set_argument(item.node, "dtype", f"{torch_at(item.module, item.node) or 'torch'}.bfloat16")
        for item in half
        if item.module is scaler.module
    ]
    return _disabled(project, scaler, edits) if len(edits) == len(half) else []


def _disabled(project: Project, scaler: Scaler, more: list[Edit]) -> list[Fix]:
    return [with_condition(project, scaler, "False", more, replaces=True)] if can_disable(project, scaler) else []


def _is_surely_on(project: Project, scaler: Scaler) -> bool:
    node = scaler.enabled_node
    if scaler.arguments is None or not (node is None or (isinstance(node, ast.Constant) and node.value is True)):
        return False
    return not any(speaks_of_precision(project, module, test) for module, test, _ in conditions_of(project, scaler))


def _is_for_cpu(scaler: Scaler) -> bool:
    device = (scaler.arguments or {}).get("device")
    return ".cpu." in scaler.api or (isinstance(device, ast.Constant) and device.value == "cpu")
