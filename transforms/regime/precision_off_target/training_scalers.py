"""Gradient scalers that the target does not need (float32), or that it needs and finds switched off (float16)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit, Fix
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.regions import regions_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import FP16, FP32
from ....codemod.torch.scaler_edits import disable_scaler, drop_scaler
from ....codemod.torch.scaler_edits.can_disable import can_disable
from ....codemod.torch.scaler_edits.needs_of_disabling import needs_of_disabling
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.region_switches import is_fixed_off, switches_of
from ....codemod.trainers.writing.moves import Move


def moves(project: Project) -> Iterator[Move]:
    """Scalers to drop or disable on the way to float32, and to switch on again on the way to float16."""
    wanted = compute_dtype(project.target)
    if wanted not in (FP32, FP16):
        return
    for scaler in scalers(project):
        if not purpose_of(scaler.module.document.path).is_foreign and scaler.is_used:
            yield from _pointless(project, scaler) if wanted == FP32 else _missing(project, scaler)


def _pointless(project: Project, scaler: Scaler) -> Iterator[Move]:
    """All regions around its step are off: there is no 16-bit gradient to scale."""
    if scaler.switched_off or next(iter(regions_of(project, scaler)), None) is not None:
        return
    islands = [item for item in autocasts(project) if item.module in scaler.modules and item.switched_off]
    fix = _off(project, scaler) if islands else None
    if fix is None:
        return
    document = scaler.module.document
    effect = "float32 gradients need no scaling; steps with inf or NaN gradients are no longer skipped"
    message = "this GradScaler scales the gradients of a step that computes in float32; the target is fp32"
    needs = needs_of_disabling(project, scaler)
    yield Move(document.path, document.span(scaler.call), message, effect, fix.edits, needs=needs)


def _off(project: Project, scaler: Scaler) -> Fix | None:
    dropped = drop_scaler.fix(project, scaler)
    if dropped is not None:
        return dropped
    return (
        disable_scaler.with_condition(project, scaler, "False", replaces=True) if can_disable(project, scaler) else None
    )


def _missing(project: Project, scaler: Scaler) -> Iterator[Move]:
    """``GradScaler(enabled=False)`` around a float16 step, as a move to bfloat16 or float32 leaves it."""
    node = scaler.enabled_node
    regions = list(regions_of(project, scaler))
    values = {value for region in regions for value in region.values}
    if all(is_fixed_off(project, region.autocast) for region in regions):
        return  # the step computes in float32
    if node is not None and not isinstance(node, ast.Constant) and values == {FP16}:
        together = {ast.unparse(item.node) for region in regions for item in switches_of(region.autocast) if item.opens}
        yield from _off_elsewhere(project, scaler, node) if ast.unparse(node) not in together else ()
    if not scaler.switched_off or scaler.kind != "direct" or values != {FP16} or not isinstance(node, ast.Constant):
        return
    document = scaler.module.document
    operation: Edit = scaler.module.remove_argument(scaler.call, scaler.switch)
    if node in scaler.call.args:
        operation = scaler.module.replace(node, "True")
    message = "this GradScaler is switched off while the training step computes in float16; the target is fp16-mixed"
    effect = "switch it on: gradients below 6e-8 survive, steps with inf or NaN gradients are skipped"
    yield Move(document.path, document.span(scaler.call), message, effect, (operation,))


def _off_elsewhere(project: Project, scaler: Scaler, node: ast.expr) -> Iterator[Move]:
    """``GradScaler(enabled=args.fp16)`` where everything that is known to set the switch leaves it off."""
    values = constants_of(project, scaler.module, node)
    given = {source.value for source in sources(project, scaler.module, node)}
    if (values and values <= {False}) or (given and given <= {False, None}):
        document = scaler.module.document
        message = (
            f"{ast.unparse(node)} leaves this GradScaler switched off while the training step computes in float16; "
            "the target is fp16-mixed: switch it on where that is decided"
        )
        yield Move(document.path, document.span(scaler.call), message)
