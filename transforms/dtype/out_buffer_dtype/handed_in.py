"""What callers hand to a function that writes products: there the dtype of a buffer is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ....codemod.flow.analysis import Interpretation, flow_of
from ....codemod.flow.frame import AutocastState
from ....codemod.flow.lattice import UNKNOWN_VALUE, Kind, Value
from ....codemod.model import Place
from ....codemod.python.callers import callers_of
from ....codemod.python.functions import class_of
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with, positional
from ....codemod.source.project import Project
from ....codemod.torch.autocast import autocasts_in
from ..custom_functions import CustomFunction, custom_functions

MAX_SITES = 8
"""Calls whose arguments are looked at; each is one more interpretation of the function."""
MAX_DEPTH = 1
"""A helper of a pass, and the call of that pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Handed:
    """One call of a function: what its parameters hold there, and what a report says of it."""

    names: Mapping[str, Value]
    place: Place


def handed_to(
    project: Project, module: ModuleNames, function: FunctionNode, state: AutocastState, depth: int = 0
) -> Iterator[Handed]:
    """The calls that hand over at least one tensor of known dtype, from callers that open no region of their own."""
    for caller, call, arguments in _calls(project, module, function):
        if any(True for _ in autocasts_in(project, caller)):
            continue  # whether the call stands inside of it decides everything
        place = caller.place(call, f"{function.name} is called with these here")
        for done in _runs(project, caller, call, state, depth):
            values = {name: done.record.values.get(node, UNKNOWN_VALUE) for name, node in arguments.items()}
            known = {name: value for name, value in values.items() if value.kind is Kind.TENSOR and value.atoms}
            if known:
                yield Handed(known, place)


def _runs(
    project: Project, caller: ModuleNames, call: ast.Call, state: AutocastState, depth: int
) -> Iterator[Interpretation]:
    """What the caller did, for itself, and then as it is called."""
    holder, analysis = caller.scope_of(call).function.node, flow_of(project)
    if isinstance(holder, FunctionNode):
        yield analysis.observed(caller, holder, state)
        if depth < MAX_DEPTH:
            for handed in handed_to(project, caller, holder, state, depth + 1):
                yield analysis.observed(caller, holder, state, handed.names)


def _calls(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[ModuleNames, ast.Call, dict[str, ast.expr]]]:
    owner = next((item for item in custom_functions(project) if item.forward is function), None)
    if owner is not None:
        yield from _applications(project, owner)
        return
    for site in callers_of(project, module, function).sites[:MAX_SITES]:
        yield site.module, site.call, site.target.arguments(site.call)


def _applications(
    project: Project, function: CustomFunction
) -> Iterator[tuple[ModuleNames, ast.Call, dict[str, ast.expr]]]:
    """``Name.apply(a, b)`` is the call of ``forward(ctx, a, b)``."""
    for module in modules_with(project, (f"{function.name}.apply",)):
        for call in module.calls_by_name.get("apply", [])[:MAX_SITES]:
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            found = class_of(project, module, receiver) if isinstance(receiver, ast.Name) else None
            if found is not None and found[1].node is function.node and not _is_spread(call):
                names = [item.arg for item in positional(function.forward.args)]
                names = names if function.separate_context else names[1:]
                yield module, call, dict(zip(names, call.args, strict=False))


def _is_spread(call: ast.Call) -> bool:
    return any(isinstance(item, ast.Starred) for item in call.args)
