"""Autocast regions of training steps, and their scalers, that shall follow the machine (``--to portable``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit, EditRefused
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.regimes import regime_of
from ....codemod.purpose.regions import regions_of
from ....codemod.purpose.steps import carries_nothing_back
from ....codemod.purpose.targets import EFFECTS
from ....codemod.purpose.training import training_modules
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import dtype_scenarios
from ....codemod.torch.dtypes import BF16, FP16, HALVES
from ....codemod.torch.machine_tests import asks_machine
from ....codemod.torch.scaler_edits import add_scaler, disable_scaler
from ....codemod.torch.scaler_edits.can_disable import can_disable, held_scalers
from ....codemod.torch.scaler_edits.needs_of_disabling import needs_of_disabling
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.unscaled_steps import scales_somehow, training_step
from ....codemod.trainers.writing.machine_choice import MachineQuestion, question
from ....codemod.trainers.writing.moves import Move
from .autocast_regions import is_literal, of_kernel, off_places, only_with, pin_places, says
from .half_kernels import half_only_kernel
from .losses_of_models import computes_scaled_loss
from .machine_dtypes import edits_at_sources, either_half
from .switches import switches_of
from .training_autocasts import TrainingRegion, fixed_in_model_code, training_regions

TARGET = "portable"
DEVICES = ("cuda", None)
"""Of regions that a choice between CUDA devices is for; None: decided at run time."""


def moves(project: Project) -> Iterator[Move]:
    """What must change for every training step to compute in what the machine has."""
    if project.target != TARGET:
        return
    losses = [item.autocast for item in training_regions(project) if computes_scaled_loss(project, item.autocast)]
    for region in training_regions(project):
        own = region.autocast not in losses and not follows_machine(project, region)
        if own and region.autocast.device in DEVICES:
            yield from _moves(project, region)
    for item in (*fixed_in_model_code(project), *losses):
        halves = {*HALVES} & {scenario.value for scenario in dtype_scenarios(project, item)}
        if item.device in DEVICES and len(halves) == 1:
            document = item.module.document
            message = "this region always computes in one 16-bit type, whatever the training step does; the target is "
            message += (
                f"{TARGET}; not changed automatically: the dtype is hard-coded in the model and may be intentional"
            )
            yield Move(document.path, document.span(item.node), message, aside=True)
    for scaler in scalers(project):
        if not purpose_of(scaler.module.document.path).is_foreign and scaler.is_used:
            yield from _scaler_moves(project, scaler)


def follows_machine(project: Project, region: TrainingRegion) -> bool:
    """Whether a test of the hardware picks the region's dtype already."""
    node = region.autocast.dtype_node
    if node is not None and asks_machine(project, region.module, node, for_bf16=True):
        return True
    tests = (given.node for scenario in region.scenarios for given in scenario.given)
    return any(asks_machine(project, region.module, test, for_bf16=True) for test in tests)


def _moves(project: Project, region: TrainingRegion) -> Iterator[Move]:
    module, autocast = region.module, region.autocast
    document, span = module.document, module.document.span(autocast.node)
    switches = switches_of(project, autocast)
    message = f"{says(region)}; the target is {TARGET}{only_with(switches)}"
    kernel = half_only_kernel(project, module)
    if region.knobs or region.is_alternative:
        yield from _by_setting(project, region)
        return
    if region.dtype not in HALVES:
        return
    if kernel is not None:
        yield Move(document.path, span, f"{message}; {of_kernel(kernel)}", evidence=(kernel,))
        return
    evidence = (*off_places(switches), *pin_places(project, region))
    try:
        edits = _region_edits(project, region)
    except EditRefused as refusal:
        yield Move(document.path, span, f"{message}; not changed automatically: {refusal}", evidence=evidence)
        return
    effect = f"choose by the machine; {EFFECTS[TARGET]}"
    yield Move(document.path, span, message, effect, edits, evidence)


def _by_setting(project: Project, region: TrainingRegion) -> Iterator[Move]:
    """The project lets its user choose: who starts the run says what the machine has."""
    for knob in region.knobs:
        if any(source.quote for source in knob.sources(project)):
            return  # "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    document = region.module.document
    name = region.knobs[0].text if region.knobs else "a project setting"
    message = (
        f"{name} picks the dtype of this region; {TARGET} cannot choose here: pass the dtype your GPU supports natively"
    )
    yield Move(document.path, document.span(region.autocast.node), message)


def _region_edits(project: Project, region: TrainingRegion) -> tuple[Edit, ...]:
    """The dtype by the machine, and the scaler that float16 needs. Raises EditRefused."""
    module, autocast = region.module, region.autocast
    node = autocast.dtype_node
    if node is not None and not is_literal(module, node):
        edits = edits_at_sources(project, module, node)
        asked = question(project, module, [autocast.node], exact=False)
    else:
        if autocast.call is None:
            raise EditRefused("there is no call to pass a dtype to")
        asked = question(project, module, [autocast.node], exact=False)
        dtype, _document = either_half(asked), module.document
        operation: Edit = module.set_argument(autocast.call, "dtype", dtype)
        if node is not None:
            operation = module.replace(node, dtype)
        edits = (operation, *asked.edits)
    return (*edits, *_scaled(project, region, asked))


def _scaled(project: Project, region: TrainingRegion, asked: MachineQuestion) -> tuple[Edit, ...]:
    """The edits that give the region's loop a scaler; none where there is one. Raises EditRefused."""
    autocast = region.autocast
    if carries_nothing_back(autocast):
        return ()
    if any(autocast.node is item.autocast.node for scaler in scalers(project) for item in regions_of(project, scaler)):
        return ()
    if region.module not in training_modules(project) or scales_somehow(project, region.module):
        if any(scaler.is_used for scaler in scalers(project)) or scales_somehow(project, region.module):
            return ()  # the step that enters this one is scaled
        raise EditRefused("float16 needs a GradScaler, and the project does not have one")
    step = training_step(project, autocast)
    fix = add_scaler.fix(project, step, f"not {asked.text}") if step is not None else None
    if fix is None:
        raise EditRefused("float16 needs a GradScaler, and this loop has no simple place for one")
    return fix.edits


def _scaler_moves(project: Project, scaler: Scaler) -> Iterator[Move]:
    """The scaler of a step that follows the machine: on for float16 only."""
    node = scaler.enabled_node
    if not _is_decided(project, scaler) or (node is not None and asks_machine(project, scaler.module, node, True)):
        return  # else it is the project's own choice: PF101 knows its words
    if not scaler.switched_off and regime_of(project, scaler).active is False:
        return
    document, span = scaler.module.document, scaler.module.document.span(scaler.call)
    message = f"this GradScaler does not follow the machine, as its training step does; the target is {TARGET}"
    edits = _switched(project, scaler)
    if not edits:
        message += "; not changed automatically: it has no switch here, or its inner state is read, "
        message += "which only an enabled one has"
    effect = "switch it on where the step computes in float16 only; a disabled scaler passes everything through"
    yield Move(document.path, span, message, effect, edits, needs=needs_of_disabling(project, scaler))


def _is_decided(project: Project, scaler: Scaler) -> bool:
    """Whether every region of its step chooses by the question that is asked here."""
    regions = [item for item in regions_of(project, scaler) if {BF16, FP16} <= item.values]
    asked = [_asked_by(project, item.autocast.module) for item in regions]
    return bool(regions) and all(map(_mentions, (item.autocast.dtype_node for item in regions), asked))


def _asked_by(project: Project, module: ModuleNames) -> MachineQuestion | None:
    """The question that a module has, if it has one."""
    try:
        return question(project, module, [], exact=False)
    except EditRefused:
        return None


def _mentions(node: ast.expr | None, asked: MachineQuestion | None) -> bool:
    return node is not None and asked is not None and asked.text in ast.unparse(node)


def _switched(project: Project, scaler: Scaler) -> tuple[Edit, ...]:
    try:
        if scaler.kind == "wrapper" and not scaler.switch:
            return _held(project, scaler)
        asked = question(project, scaler.module, [scaler.call], exact=False)
    except EditRefused:
        return ()
    if not can_disable(project, scaler):
        return ()
    replaces = scaler.enabled_node is None or isinstance(scaler.enabled_node, ast.Constant)
    return disable_scaler.with_condition(project, scaler, f"not {asked.text}", asked.edits, replaces).edits


def _held(project: Project, scaler: Scaler) -> tuple[Edit, ...]:
    """The scaler inside a wrapper without a switch, where every step that such a wrapper serves follows the machine."""
    alike = held_scalers(project, scaler)
    if not alike or not all(_is_decided(project, item) for item in alike):
        return ()
    module, call = scaler.inner[0]
    asked = question(project, module, [call], exact=False)
    return (module.set_argument(call, "enabled", f"not {asked.text}"), *asked.edits)
