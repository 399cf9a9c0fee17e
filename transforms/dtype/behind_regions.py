"""What a region computed in 16 bits, behind it: whether float32 weights that it meets there make the program raise."""

from __future__ import annotations

from ...codemod.flow.contexts import autocasts_by_node
from ...codemod.flow.frame import Autocasting, Meeting
from ...codemod.flow.lattice import MadeHow
from ...codemod.half.atom_places import chain_of
from ...codemod.half.half_classes import may_be_inside, may_wrap
from ...codemod.purpose.runs import can_be_open
from ...codemod.python.functions import bases_of
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP32, HALVES
from .surroundings import is_left_by_autocast


def is_met_behind_region(project: Project, meeting: Meeting) -> bool:
    """Whether a layer that is made in float32 takes what a region of the same function gave, where none can be open.

    The function opens the region itself, in a run that the project gives; no caller has one around it.
    """
    odd, meant, module = meeting.odd.atom, meeting.meant.atom, meeting.module
    is_narrow = is_left_by_autocast(meeting) and meant.dtype in HALVES and meeting.autocast is Autocasting.MAYBE
    if not is_narrow or odd.dtype != FP32 or odd.made is not MadeHow.MODULE or may_wrap(module):
        return False
    owner = module.scope_of(meeting.node).enclosing_class
    if owner is not None and bases_of(owner):
        return False  # what is above it may open a region around its methods
    index = autocasts_by_node(project, module)
    regions = [index[step.node] for step in chain_of(meant) if step.node in index]
    return (
        len(regions) == 1
        and module.scope_of(regions[0].node).function is module.scope_of(meeting.node).function
        and can_be_open(project, regions[0])
        and not may_be_inside(project, module, meeting.node)
    )
