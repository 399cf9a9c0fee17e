"""Autocast regions of training steps that do not compute in the target's dtype."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ....codemod.model import Edit, EditRefused, Place, Span
from ....codemod.purpose.targets import EFFECTS, compute_dtype
from ....codemod.python.names import ModuleNames
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.autocast import DTYPE_SINCE, dtype_scenarios
from ....codemod.torch.dtypes import BF16, FP16, FP32, HALVES, Dtype
from ....codemod.trainers.reading.knobs import Knob, rival_on
from ....codemod.trainers.reading.links import sources, unfollowed_argument
from ....codemod.trainers.reading.region_switches import is_fixed_off
from ....codemod.trainers.reading.source import ValueSource
from ....codemod.trainers.writing.doubts import OFF_TODAY
from ....codemod.trainers.writing.moves import Move
from ....codemod.trainers.writing.other_fallbacks import read_elsewhere
from ....codemod.trainers.writing.transactions import as_far_as_it_counts
from ....codemod.trainers.writing.unscaled import UNSCALED, raw_step
from .branches import is_picked, left_open, picked_moves
from .demanded_halves import demanded_half
from .half_kernels import half_only_kernel
from .losses_of_models import OF_MODEL, computes_scaled_loss
from .spelling import argument_set, replaced
from .switches import Switch, closing_switches, half_asked_by, is_for_half_only, switches_of, undecided
from .training_autocasts import TrainingRegion, fixed_in_model_code, training_regions
from .training_scalers import WITH_SCALER, doubted_scaling, is_left_unscaled, with_scaler
from .twin_flags import OTHER_USES, twin_flag
from .unknown_arrays import misfit

NAMED = "{} is named for another dtype, and would switch {} on"
DEAD = "{} decides today, and would do nothing then"
DEFAULTS = ("parameter", "argument")
"""Where a truth value is left: what a caller passes decides, and a switch that is off is not flipped."""


def moves(project: Project) -> Iterator[Move]:
    """What must change for every autocast region to compute as the target asks."""
    wanted = compute_dtype(project.target)
    if wanted is None:
        return
    for region in training_regions(project):
        yield from _doubted(project, region) if wanted == FP32 else _to_half(project, region, wanted)
    if wanted != FP32:
        yield from _switched_on(project)
    for item in fixed_in_model_code(project):
        values = {scenario.value for scenario in dtype_scenarios(project, item)}
        if not values.isdisjoint(HALVES) and wanted not in values:
            document, names = item.module.document, (value.name for value in values if isinstance(value, Dtype))
            message = (
                f"this region always computes in {' or '.join(sorted(names))}, whatever the training step "
                f"does; the target is {project.target}; not changed automatically: the dtype is hard-coded in the "
                "model and may be intentional"
            )
            yield Move(document.path, document.span(item.node), message, aside=True)


# --- to a 16-bit dtype ------------------------------------------------------------------------------------------------


def _to_half(project: Project, region: TrainingRegion, wanted: Dtype) -> Iterator[Move]:
    unscaled = wanted == FP16 and region.values != {wanted} and is_left_unscaled(project, region)
    raw = raw_step(project, (region.module,)) if wanted == FP16 and region.values != {wanted} else ""
    beside = (other.autocast for other in training_regions(project) if other.module is region.module)
    is_off = all(is_fixed_off(project, item) for item in beside)
    array = misfit(project, region.autocast, wanted) if region.values != {wanted} else None
    doubt = OFF_TODAY if is_off else f"{array.path}:{array.span.row} {array.message}" if array is not None else ""
    doubt = doubt or (OF_MODEL if computes_scaled_loss(project, region.autocast) else "")
    doubt = doubt or (doubted_scaling(project, region) if wanted == FP16 and region.values != {wanted} else "")
    for move in _half_moves(project, region, wanted):
        move = replace(move, unproved=doubt) if doubt and move.edits and not move.unproved else move
        move = with_scaler(project, region, move) if unscaled and not raw else move
        is_held = raw or (unscaled and not move.unproved.startswith(WITH_SCALER))
        yield move.only_reported(raw or UNSCALED) if is_held and move.edits else move


def _switched_on(project: Project) -> Iterator[Move]:
    """The constants with which code alone keeps regions off: without them nothing computes in 16 bits."""
    off: dict[tuple[str, Span], tuple[TrainingRegion, Switch, ValueSource]] = {}
    for region in training_regions(project):
        for switch in switches_of(project, region.autocast) if is_fixed_off(project, region.autocast) else ():
            off |= {(source.path, source.span): (region, switch, source) for source in switch.sources}
    for region, switch, source in off.values():
        if source.value is False:
            message = f"{source.key} switches mixed precision off; the target is {project.target}"
            evidence = (_place(region, f"{switch.text} is the switch of this region"),)
            edits = (source.respelled(True),)
            move = Move(source.path, source.span, message, "switch it on", edits, evidence, OFF_TODAY)
            unscaled = compute_dtype(project.target) == FP16 and is_left_unscaled(project, region)
            yield move.only_reported(UNSCALED) if unscaled else move


def _half_moves(project: Project, region: TrainingRegion, wanted: Dtype) -> Iterator[Move]:
    if region.values == {wanted}:
        return
    knobs = [knob for knob in region.knobs if knob.literal(wanted) is not None]
    given = [(knob, source) for knob in knobs for source in knob.sources(project)]
    kernel = half_only_kernel(project, region.module) if wanted == BF16 else None
    if given:
        yield from _settings(project, region, given, wanted, kernel)
    elif wanted in region.values or region.is_alternative:
        yield from _chosen_elsewhere(project, region, knobs, wanted)
    else:
        yield from _region_moves(project, region, wanted, kernel)


def _chosen_elsewhere(project: Project, region: TrainingRegion, knobs: list[Knob], wanted: Dtype) -> Iterator[Move]:
    """A setting decides that nothing in the project gives a value; a test of the hardware needs no word."""
    for knob in knobs:
        if isinstance(knob.node, ast.Attribute | ast.Subscript) and isinstance(knob.literal(wanted), str):
            document = region.module.document
            message = (
                f"{knob.text} picks the dtype of this region; {project.target} needs {knob.literal(wanted)!r} there"
            )
            yield Move(document.path, document.span(region.autocast.node), message)


def _settings(
    project: Project,
    region: TrainingRegion,
    given: list[tuple[Knob, ValueSource]],
    wanted: Dtype,
    kernel: Place | None,
) -> Iterator[Move]:
    """The default of a class's field is not used where configuration files say what it shall be."""
    found = [source for _, source in given]
    is_on = any(knob.meaning(source.value) in HALVES for knob, source in given)
    yield from (left_open(knob, source, wanted) for knob, source in given if source.is_left_open)
    for knob, source in given:
        is_off = (
            wanted in HALVES and knob.meaning(source.value) == FP32 and rival_on(project, region.knobs, source) is None
        )
        for move in _knob_moves(project, region, knob, source, wanted, kernel) if not (is_off and is_on) else ():
            yield as_far_as_it_counts(replace(move, unproved=OFF_TODAY) if is_off else move, source, found)


def _knob_moves(
    project: Project, region: TrainingRegion, knob: Knob, source: ValueSource, wanted: Dtype, kernel: Place | None
) -> Iterator[Move]:
    on = rival_on(project, region.knobs, source)
    shown, meant = on or (source, knob.meaning(source.value))
    is_open = source.value in knob.undecided
    if (meant is None and not is_open) or meant == wanted:
        return
    if isinstance(source.value, bool) and source.kind in DEFAULTS:
        return
    value = knob.literal(wanted, source.value)
    picked = meant.name if meant is not None else "a dtype that something else decides"
    message = f"{shown.key} is {shown.text or shown.value}: the training step computes in {picked}"
    message += f"; the target is {project.target}"
    message += only_with(switches_of(project, region.autocast)) if wanted != FP32 else ""
    evidence = (_place(region, f"{knob.text} picks the dtype of this region"),)
    if kernel is not None:
        yield Move(source.path, source.span, f"{message}, which {of_kernel(kernel)}", evidence=(*evidence, kernel))
        return
    twin = twin_flag(project, source, wanted) if isinstance(value, bool) else None
    try:
        edit = twin or source.believed.respelled(value)
    except EditRefused as refusal:
        message += f"; it has to be {value!r}, by hand: {refusal}"
        yield Move(source.path, source.span, message, evidence=evidence)
        return
    effect = f"{value!r} is what the project's own code uses for {wanted.name}; {EFFECTS[project.target or '']}"
    is_exchanged = twin is not None or on is not None
    unproved = "something else decides as well today" if meant is None else OTHER_USES if is_exchanged else ""
    unproved = unproved or read_elsewhere(project, source)
    yield Move(source.path, source.span, message, effect, (edit,), evidence, unproved)


def _region_moves(project: Project, region: TrainingRegion, wanted: Dtype, kernel: Place | None) -> Iterator[Move]:
    autocast, document = region.autocast, region.module.document
    switches = switches_of(project, autocast)
    message = f"{says(region)}; the target is {project.target}{only_with(switches)}"
    evidence = (*off_places(switches), *pin_places(project, region))
    span = document.span(autocast.node)
    if kernel is not None:
        yield Move(document.path, span, f"{message}; {of_kernel(kernel)}", evidence=(kernel,))
        return
    node = autocast.dtype_node
    if node is not None and not is_literal(region.module, node):
        yield from _through_sources(project, region, node, wanted)
        return
    if region.dtype is None:
        return
    tested = half_asked_by(project, autocast, wanted)
    if tested:
        message += f"; not changed automatically: {tested} switches it on for another dtype only"
        yield Move(document.path, span, message, evidence=evidence)
        return
    effect = f"compute in {wanted.name} here; {EFFECTS[project.target or '']}"
    doubt = next((NAMED.format(item.text, wanted.name) for item in switches if item.is_named_for_other(wanted)), "")
    yield Move(document.path, span, message, effect, _dtype_edits(region, wanted), evidence, doubt)


def _dtype_edits(region: TrainingRegion, wanted: Dtype) -> tuple[Edit, ...]:
    autocast = region.autocast
    if autocast.dtype_node is not None:
        return replaced(region.module, autocast.dtype_node, wanted)
    return argument_set(region.module, autocast.call, "dtype", wanted) if autocast.call is not None else ()


def _through_sources(project: Project, region: TrainingRegion, node: ast.expr, wanted: Dtype) -> Iterator[Move]:
    """The dtype is a variable, a constant, a default: it changes where it is written."""
    if is_picked(region.scenarios, wanted):
        yield from picked_moves(project, region.module, node, region.scenarios, wanted)
        return
    lost = unfollowed_argument(project, region.module, node)
    for source in sources(project, region.module, node):
        if source.value not in HALVES or source.value == wanted:
            continue
        evidence = (_place(region, f"{ast.unparse(node)} is the dtype of this region"),)
        said = f"{source.key} is {source.text}: the training step computes in it; the target is {project.target}"
        if lost is not None:
            said += "; not changed automatically: not all that is passed for it can be followed"
            yield Move(source.path, source.span, said, "", (), (*evidence, lost))
            continue
        try:
            edit = source.respelled(wanted)
        except EditRefused:
            yield Move(source.path, source.span, said, "", (), evidence)
            continue
        effect = f"make it {wanted.name}; {EFFECTS[project.target or '']}"
        yield Move(source.path, source.span, said, effect, (edit,), evidence)


def _doubted(project: Project, region: TrainingRegion) -> Iterator[Move]:
    for move in _to_float32(project, region):
        demand = demanded_half(project, region.autocast) if move.edits and not move.unproved else None
        doubt = f"{demand.path}:{demand.span.row} {demand.message}" if demand is not None else ""
        yield replace(move, unproved=doubt) if doubt else move


def _to_float32(project: Project, region: TrainingRegion) -> Iterator[Move]:
    """By the project's own setting, else its own switch, else the region is switched off."""
    deciding = _deciding(project, region)
    if any(switch.sources for switch in deciding):
        yield from _switched_off(project, region, [switch for switch in deciding if switch.sources])
        return
    given = [
        (knob, source) for knob in region.knobs if knob.literal(FP32) is not None for source in knob.sources(project)
    ]
    if given:
        doubt = DEAD.format(deciding[0].text) if deciding else ""
        for move in _settings(project, region, given, FP32, None):
            yield replace(move, unproved=move.unproved or doubt)
        return
    every = (*switches_of(project, region.autocast), *closing_switches(project, region.autocast))
    switches = [switch for switch in every if switch.sources]
    if switches:
        yield from _switched_off(project, region, switches)
    elif not region.is_alternative and FP32 not in region.values and region.autocast.call is not None:
        document = region.module.document
        if is_for_half_only(project, region.autocast):
            return
        edit = region.module.set_argument(region.autocast.call, "enabled", "False")
        message = f"{says(region)}; the target is fp32"
        effect = f"switch the region off; {EFFECTS['fp32']}"
        open_one = undecided(project, region.autocast)
        yield Move(document.path, document.span(region.autocast.node), message, effect, (edit,), unproved=open_one)


def _deciding(project: Project, region: TrainingRegion) -> list[Switch]:
    """The switches without which a region computes in float32, and with which another setting picks its dtype."""
    halves = [scenario for scenario in region.scenarios if scenario.value in HALVES]
    found = []
    for knob in region.knobs:
        off, is_asked = knob.literal(FP32), (any(given.text == knob.text for given in each.given) for each in halves)
        if isinstance(off, bool) and knob.meaning(not off) is None and all(is_asked):
            found.append(Switch(knob.module, knob.node, knob.sources(project), opens=not off))
    return found


def _switched_off(project: Project, region: TrainingRegion, switches: list[Switch]) -> Iterator[Move]:
    if any(switch.is_off_by_default for switch in switches):
        return
    for switch in switches:
        picked = "a test picks this value, and decides what it belongs to as well" if switch.is_picked else ""
        for source in switch.on:
            says_on = "switches mixed precision on" if switch.opens else "leaves mixed precision on"
            message = f"{source.key} {says_on}; the target is fp32"
            evidence = (_place(region, f"{switch.text} is the switch of this region"),)
            try:
                edits: tuple[Edit, ...] = (source.respelled(not switch.opens),)
            except EditRefused as refusal:
                message, edits = f"{message}: it has to be switched off by hand ({refusal})", ()
            effect = f"switch it off; {EFFECTS['fp32']}"
            unproved = picked or switch.other_meaning or read_elsewhere(project, source)
            yield Move(source.path, source.span, message, effect, edits, evidence, unproved)


def _place(region: TrainingRegion, message: str) -> Place:
    return region.module.place(region.autocast.node, message)


def says(region: TrainingRegion) -> str:
    dtype = region.dtype
    if dtype is None:
        return "this region computes in a dtype that is not stated here"
    how = " (autocast's default on CUDA)" if region.autocast.dtype_node is None else ""
    return f"this region computes in {dtype.name}{how}"


def only_with(switches: tuple[Switch, ...]) -> str:
    off = [switch.text for switch in switches if switch.is_off_by_default]
    return f"; it takes effect only with {off[0]}, which is off by default" if off else ""


def off_places(switches: tuple[Switch, ...]) -> tuple[Place, ...]:
    return tuple(
        source.place("the switch is off by default")
        for switch in switches
        if switch.is_off_by_default
        for source in switch.sources
    )[:4]


def pin_places(project: Project, region: TrainingRegion) -> tuple[Place, ...]:
    """Where the project promises to run with a torch whose autocast takes no dtype."""
    versions = allowed(project, "torch", region.module.document.path) if region.autocast.dtype_node is None else None
    pin = versions.pin_below(DTYPE_SINCE) if versions is not None else None
    return (pin.place.saying(f"autocast takes dtype= from torch {DTYPE_SINCE} on"),) if pin else ()


def of_kernel(kernel: Place) -> str:
    return f"cannot be reached by an edit: {kernel.message}"


def is_literal(module: ModuleNames, node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and (module.qualified(node) or "").startswith("torch.")
