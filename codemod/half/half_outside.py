"""Whether a tensor is 16-bit because the code casts it, in a call that no autocast region stands around.

Under autocast a norm or a softmax of what was cast gives float32 again: it has to be known who calls a function.
"""

from __future__ import annotations

import ast

from ..flow.analysis import flow_of
from ..flow.classes import ProjectClass
from ..flow.frame import OUTSIDE
from ..flow.lattice import Kind
from ..model import Place
from ..purpose.files import is_test
from ..purpose.proved_reach import can_run, is_reached
from ..purpose.steps import contexts_around, may_be_autocast
from ..python.names import FunctionNode, ModuleNames
from ..source.project import Project
from ..torch.dtypes import HALVES
from ..torch.entering_calls import sites_of
from .atom_places import atom_places, steps_can_run
from .enclosed import is_never_prepared
from .half_here import Half, is_told_apart

MAX_HOPS = 5
"""How many calls up the program is looked for."""


def half_outside(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """The 16-bit types that a tensor of a function has in the first call that is seen to run outside of autocast."""
    if not isinstance(module.scope_of(node).function.node, FunctionNode) or is_told_apart(project, module, node):
        return None
    value = flow_of(project).value_at(module, node, OUTSIDE) if can_run(project, module, node) else None
    if value is None or value.kind is not Kind.TENSOR or not value.atoms:
        return None
    dtypes = frozenset(atom.dtype for atom in value.atoms if atom.dtype in HALVES)
    if len(dtypes) != len({atom.dtype for atom in value.atoms}) or not steps_can_run(project, value.atoms):
        return None
    way = _way_outside(project, module, node, MAX_HOPS)
    return Half(dtypes, True, (*atom_places(project, value.atoms), *way[:1])) if way else None


def _way_outside(project: Project, module: ModuleNames, node: ast.AST, hops: int) -> tuple[Place, ...]:
    """The calls that lead to a place from a program, none of them in a region; empty where none are seen."""
    function = module.scope_of(node).function.node
    if not isinstance(function, FunctionNode) or not hops or any(map(may_be_autocast, contexts_around(module, node))):
        return ()
    owner = module.scopes[function].enclosing_class
    of_model = owner is not None and flow_of(project).is_module(ProjectClass(module, owner))
    for other, call in sites_of(project, module, function):
        if is_test(other.path) or not is_reached(project, other, call):
            continue
        if any(map(may_be_autocast, contexts_around(other, call))):
            continue
        own = ast.unparse(call.func).startswith("self.")
        if of_model and not own and not is_never_prepared(project, other, call):
            continue
        place = other.place(call, f"{ast.unparse(call.func)} is called here, outside of autocast")
        is_program = not isinstance(other.scope_of(call).function.node, FunctionNode)
        above = () if is_program else _way_outside(project, other, call, hops - 1)
        if is_program or above:
            return (place, *above)
    return ()
