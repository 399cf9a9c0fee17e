"""Whether what is handed to a plain function can be 16-bit: nothing in the function itself says so."""

from __future__ import annotations

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.frame import Autocasting, AutocastState, Meeting
from ...codemod.flow.lattice import Role
from ...codemod.flow.parameters import parameter_symbol
from ...codemod.purpose.files import is_test
from ...codemod.python.callers import CallSite, callers_of
from ...codemod.python.names import FunctionNode, ModuleNames, parameters_of
from ...codemod.source.project import Project

MAX_SITES = 8
"""Calls whose arguments are looked at."""


def is_handed_half(project: Project, meeting: Meeting) -> bool:
    """Whether the operand that was meant can be 16-bit; only for parameters of plain functions is that a question.

    A method of a model is given tensors in the dtype of its weights; a function is given what its callers have.
    """
    function, atom = meeting.function, meeting.meant.atom
    if atom.role is not Role.PARAMETER or function is None:
        return True
    if _is_of_model(project, meeting.module, function):
        return True
    names = [item.arg for item in parameters_of(function) if parameter_symbol(function, item.arg) == atom.symbol]
    sites = _sites(project, meeting.module, function)
    outer = meeting.module.scopes[function].parent
    if not sites and outer is not None and isinstance(outer.node, FunctionNode):  # ``vmap(inner)(x)``
        sites, names = _sites(project, meeting.module, outer.node), [item.arg for item in parameters_of(outer.node)]
    return any(_hands_half(project, site, name) for site in sites for name in names)


def _sites(project: Project, module: ModuleNames, function: FunctionNode) -> tuple[CallSite, ...]:
    sites = callers_of(project, module, function).sites
    return tuple(site for site in sites if not is_test(site.module.document.path))[:MAX_SITES]


def _hands_half(project: Project, site: CallSite, name: str) -> bool:
    given = site.target.arguments(site.call).get(name)
    if given is None:
        return False
    caller = site.module.scope_of(site.call).function.node
    in_model = isinstance(caller, FunctionNode) and _is_of_model(project, site.module, caller)
    value = flow_of(project).value_at(site.module, given, AutocastState(Autocasting.MAYBE))
    unclear = (Role.DATA,) if in_model else (Role.DATA, Role.PARAMETER)
    return any(atom.is_half and atom.role not in unclear for atom in value.atoms)


def _is_of_model(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    owner = flow_of(project).owner(module, function)
    return owner is not None and flow_of(project).is_module(owner)
