"""What a rehearsal saw raise, as a rule tells it, and what a fix of it rests on."""

from __future__ import annotations

import ast

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.classes import TorchLayer
from ...codemod.flow.frame import Autocasting, AutocastState, Meeting
from ...codemod.flow.lattice import Kind
from ...codemod.proof.needs import Known, Need, Rehearsed
from ...codemod.python.seen import seen_of
from ...codemod.source.project import Project
from ...codemod.torch.tables.layers import LAYERS
from .clashes import name_of

ALWAYS_RAISES = ("raises", "raises-destination", "raises-mask")
"""What a mix does where no run takes one."""


def seen_message(meeting: Meeting) -> str:
    """What is told of a meeting that was only seen; empty for others."""
    if not meeting.is_only_seen or meeting.odd.atom.dtype is None or meeting.meant.atom.dtype is None:
        return ""
    odd, meant = name_of(meeting.odd.node), name_of(meeting.meant.node)
    other = f"the weights of {meant} are" if meeting.operation == "module" and _is_called(meeting) else f"{meant} is"
    return f"{odd} is {meeting.odd.atom.dtype.name} and {other} {meeting.meant.atom.dtype.name}: this raises"


def _is_called(meeting: Meeting) -> bool:
    return isinstance(meeting.node, ast.Call) and meeting.node.func is meeting.meant.node


def rests_on_sight(project: Project, meeting: Meeting, *, known: bool) -> tuple[Need, ...]:
    """What a cast rests on at a place that a rehearsal saw raise; ``known``: whether reading tells all it needs.

    Where the operation refuses every mix, the cast changes no run that goes on today. That its operand is a tensor, and
    the module one with weights, was seen: in runs like that one.
    """
    seen = seen_of(project)
    if seen is None or meeting.seen is None or (known and not meeting.is_only_seen):
        return ()
    refuses = Known(not meeting.is_only_seen or _refuses_every_mix(meeting), "other runs may take this mix of dtypes")
    tensor = Known(_must_be_tensor(project, meeting), f"{name_of(meeting.odd.node)} may be no tensor in other runs")
    return (refuses, tensor, Rehearsed(seen.observation.name, seen.stale))


def _must_be_tensor(project: Project, meeting: Meeting) -> bool:
    """Whether nothing but a tensor can stand there; arrays are multiplied, and numbers written, as well."""
    if isinstance(meeting.node, ast.Call):
        return True
    value = flow_of(project).value_at(meeting.module, meeting.odd.node, AutocastState(Autocasting.MAYBE))
    return value.kind is Kind.TENSOR


def owns_as_seen(meeting: Meeting) -> bool:
    """Whether a rehearsal saw that what is called owns the weights that were met."""
    return meeting.seen is not None and any(each.is_owned for each in meeting.seen.operands)


def _refuses_every_mix(meeting: Meeting) -> bool:
    if meeting.operation != "module":
        return meeting.mix in ALWAYS_RAISES
    detail = meeting.applied.detail if meeting.applied is not None else None
    layer = LAYERS.get(detail.name) if isinstance(detail, TorchLayer) else None
    return layer is not None and layer.mix in ALWAYS_RAISES
