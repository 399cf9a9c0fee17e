"""Gradient scalers that the target does not need (float32), or that it needs and finds switched off (float16)."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ....codemod.model import Applicability, Edit, Fix
from ....codemod.purpose.entered import entries_of
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.imports import connected_modules
from ....codemod.purpose.regions import Region, regions_of
from ....codemod.purpose.targets import compute_dtype
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import guards
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts, runs_without_gradients
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import FP16, FP32
from ....codemod.torch.scaler_edits import disable_scaler, drop_scaler
from ....codemod.torch.scaler_edits.add_scaler import fix
from ....codemod.torch.scaler_edits.can_disable import can_disable
from ....codemod.torch.scaler_edits.needs_of_disabling import needs_of_disabling
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.unscaled_steps import LossStep, names_scaling, scales_somehow, training_step
from ....codemod.torch.weights import cast_dtype
from ....codemod.trainers.reading.knobs import Knob, knobs_of
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.region_switches import is_fixed_off, switches_of
from ....codemod.trainers.reading.setting_reads import read_of
from ....codemod.trainers.writing.moves import Move
from ....codemod.trainers.writing.unscaled import has_unscaled_step, is_stepped, is_unscaled_in
from .switches import is_off_by_default
from .training_autocasts import TrainingRegion, training_regions
from .twin_flags import twin_flag, twin_of

ELSEWHERE = "the steps that it scales stand in other files than the regions that are off"
WITH_SCALER = "a scaler is written for the step at"


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
    islands = [item for item in autocasts(project) if item.switched_off]
    is_beside = any(item.module in scaler.modules for item in islands)
    near = {module for each in scaler.modules for module in connected_modules(project, each)} if islands else set()
    is_near = any(item.module in near and not runs_without_gradients(item) for item in islands)
    fix = _off(project, scaler) if is_beside or is_near else None
    if fix is None:
        return
    document = scaler.module.document
    effect = "float32 gradients need no scaling; steps with inf or NaN gradients are no longer skipped"
    message = "this GradScaler scales the gradients of a step that computes in float32; the target is fp32"
    needs, unproved = needs_of_disabling(project, scaler), "" if is_beside else ELSEWHERE
    span = document.span(scaler.call)
    yield Move(document.path, span, message, effect, fix.edits, unproved=unproved, needs=needs)


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
    together = {ast.unparse(item.node) for region in regions for item in switches_of(region.autocast) if item.opens}
    if node is not None and not isinstance(node, ast.Constant) and values == {FP16}:
        is_apart = ast.unparse(node) not in together
        yield from _off_elsewhere(project, scaler, node, is_there=True) if is_apart else ()
    elif FP16 in values:  # what the target's branch computes in
        yield from _left_off(project, scaler, regions, together)
    if not scaler.switched_off or scaler.kind != "direct" or values != {FP16} or not isinstance(node, ast.Constant):
        return
    document = scaler.module.document
    operation: Edit = scaler.module.remove_argument(scaler.call, scaler.switch)
    if node in scaler.call.args:
        operation = scaler.module.replace(node, "True")
    message = "this GradScaler is switched off while the training step computes in float16; the target is fp16-mixed"
    effect = "switch it on: gradients below 6e-8 survive, steps with inf or NaN gradients are skipped"
    yield Move(document.path, document.span(scaler.call), message, effect, (operation,))


def _left_off(project: Project, scaler: Scaler, regions: Iterable[Region], together: set[str]) -> Iterator[Move]:
    """``if args.fp16: scaler = GradScaler()`` where the region asks for ``args.bf16``, and no flag brings the other."""
    found = [(item.autocast.module, item.scenarios, item.autocast.dtype_node) for item in regions]
    knobs = [knob for each in found for knob in knobs_of(project, *each)]
    moving = {*together, *(knob.text for knob in knobs)}
    brought = {name for knob in knobs for name in _brought(project, knob)}
    tests = [guard.test for guard in guards(scaler.module, scaler.call) if guard.holds] if knobs else []
    for node in (*tests, *([scaler.enabled_node] if knobs and scaler.enabled_node is not None else [])):
        read = read_of(scaler.module, node)
        name = node.id if isinstance(node, ast.Name) else read.name if read is not None else ""
        if name and name not in brought and ast.unparse(node) not in moving:
            yield from _off_elsewhere(project, scaler, node)


def _brought(project: Project, knob: Knob) -> Iterator[str]:
    """The other flag, where the move puts it in the place of each one that is given."""
    given = [source for source in knob.sources(project) if source.value is True and source.option is not None]
    if all(twin_flag(project, source, FP16) is not None for source in given):
        twins = (twin_of(project, source.option) for source in given if source.option is not None)
        yield from (twin.name for twin in twins if twin is not None)


def _off_elsewhere(project: Project, scaler: Scaler, node: ast.expr, *, is_there: bool = False) -> Iterator[Move]:
    """``GradScaler(enabled=args.fp16)`` where everything that is known to set the switch leaves it off.

    With ``is_there`` the step computes in float16 today, and what the switch is now counts as well.
    """
    values = constants_of(project, scaler.module, node) if is_there else set()
    given = {source.value for source in sources(project, scaler.module, node)}
    if (values and values <= {False}) or (given and given <= {False, None}):
        document = scaler.module.document
        step = "while the training step computes in float16" if is_there else "where the step is to compute in float16"
        message = f"{ast.unparse(node)} leaves this GradScaler switched off {step}; the target is fp16-mixed: "
        message += "switch it on where that is decided"
        yield Move(document.path, document.span(scaler.call), message)


# --- scalers that regions need ----------------------------------------------------------------------------------------


def doubted_scaling(project: Project, region: TrainingRegion) -> str:
    """Where the scaler that float16 needs here is only written with leave: the region may not go without it."""
    step = training_step(project, region.autocast)
    added = fix(project, step) if step is not None and not scales_somehow(project, step.module) else None
    if added is None or step is None or added.applicability is not Applicability.UNSAFE:
        return ""
    where = f"{step.module.path}:{step.backward.lineno} {ast.unparse(step.backward)}"
    return f"{where} needs a scaler, and the one that would be written needs leave"


def is_left_unscaled(project: Project, region: TrainingRegion) -> bool:
    """Whether a step of the region's programs runs ``backward`` on a loss that nothing scales, nor PF102 will.

    It can write no scaler everywhere, and says nothing where no run that is given switches the region on.
    """
    if runs_without_gradients(region.autocast) or not is_stepped(project, region.module):
        return False
    step = training_step(project, region.autocast)
    here = is_unscaled_in(region.module, region.autocast.node) or (
        step is not None and not names_scaling(step.function)
    )
    if not here and not has_unscaled_step(project, region.module):
        return False
    added = fix(project, step) if region.dtype is not None and step is not None else None
    if step is None or added is None or is_off_by_default(project, region.autocast):
        return True
    return _casts_to_half(project, step.module)


def _casts_to_half(project: Project, module: ModuleNames) -> bool:
    """Whether a file casts something to float16, of which PF102 says nothing: it may be weights."""
    calls = (call for name in ("half", "to") for call in module.calls_by_name.get(name, ()))
    return any(cast_dtype(project, module, call) == FP16 for call in calls)


def with_scaler(project: Project, region: TrainingRegion, move: Move) -> Move:
    """``move`` of a region that functions hand out (``with self.autocast():``), or that is off by default, with a
    scaler for the step that enters it, where one can be written; of several regions around that step the first one
    brings it.
    """
    step = _step_entered(project, region)
    added = fix(project, step) if step is not None and move.edits and region.dtype is not None else None
    if step is None or added is None or scales_somehow(project, step.module):
        return move
    others = ((each, _step_entered(project, each)) for each in training_regions(project))
    first = next(each for each, found in others if found is not None and found.backward is step.backward)
    edits = (*move.edits, *added.edits) if first is region else move.edits
    unproved = f"{WITH_SCALER} {step.module.path}:{step.backward.lineno}, which the region is seen to be entered for"
    return replace(move, edits=edits, unproved=unproved)


def _step_entered(project: Project, region: TrainingRegion) -> LossStep | None:
    """The only training step for a region that a function or a name hands out, or that is off by default."""
    entries = entries_of(project, region.autocast)
    found = [training_step(project, region.autocast, entry) for entry in entries]
    if len(found) != 1:
        return None
    is_apart = entries[0].node is not region.autocast.node or is_off_by_default(project, region.autocast)
    return found[0] if is_apart else None
