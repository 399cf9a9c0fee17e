"""Tensors that are 16-bit in every run, seen outside of autocast: computed by models that are cast, or asked for so."""

from __future__ import annotations

import ast

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.frame import OUTSIDE
from ...codemod.flow.lattice import Atom, Kind, Role
from ...codemod.half.atom_places import atom_places, steps_can_run
from ...codemod.half.half_here import Half
from ...codemod.half.half_runs import weights_in_half
from ...codemod.purpose.decided import has_run
from ...codemod.purpose.entered import way_inside
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import HALVES, Dtype
from .trained_classes import output_of_trained


def certainly_half(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """Why a tensor is 16-bit where no region is open; None where it is not certain, or a region may be open."""
    value = flow_of(project).value_at(module, node, OUTSIDE)
    if way_inside(project, module, node) is not None:
        return None
    if value.kind is not Kind.TENSOR or not value.atoms:
        weights = output_of_trained(project, module, node)
        return Half(frozenset((weights.dtype,)), True, weights.places) if weights is not None else None
    dtypes = [_dtype(project, atom) for atom in value.atoms]
    if None in dtypes or not steps_can_run(project, value.atoms):
        return None
    known = weights_in_half(project)
    runs = dict.fromkeys(known[atom.symbol] for atom in value.atoms if atom.symbol in known)
    function = module.scope_of(node).function.node
    if any(function not in run.functions or not has_run(project, run.module, run.call) for run in runs):
        return None
    places = tuple(dict.fromkeys((*(run.cast for run in runs), *atom_places(project, value.atoms))))
    return Half(frozenset(item for item in dtypes if item is not None), True, places)


def _dtype(project: Project, atom: Atom) -> Dtype | None:
    """The 16-bit dtype that a way gives for certain: that of a whole model's cast for what its weights decide."""
    if atom.guessed:
        return None
    if atom.dtype is not None:
        return atom.dtype if atom.dtype in HALVES else None
    known = weights_in_half(project).get(atom.symbol) if atom.role is Role.WEIGHTS else None
    return known.dtype if known is not None else None
