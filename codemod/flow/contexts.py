"""What a ``with`` does to autocast: a region opens, closes, or perhaps opens."""

from __future__ import annotations

import ast

from ..python.names import ModuleNames, last_name, modules_with
from ..source.facts import fact, memo
from ..source.project import Project
from ..torch.autocast import Autocast, autocasts_in, dtype_scenarios
from ..torch.dtypes import Dtype
from .frame import Autocasting, AutocastState, Frame
from .lattice import Atom, DtypeSource, MadeHow, Role

OWN_METHODS = ("autocast", "autocast_smart_context_manager", "compute_loss_context_manager", "forward_context")
"""Methods of trainers (accelerate, fabric, transformers, Lightning plugins) that open a region."""
MAYBE_WORDS = ("autocast", "amp", "precision")
UNDECORATED = AutocastState(Autocasting.MAYBE)
"""What a function begins in whose callers decide."""


@memo
def autocasts_by_node(project: Project, module: ModuleNames) -> dict[ast.AST, Autocast]:
    """The autocasts of a file; no other part of it has one if its text does not hold the word."""
    found = autocasts_in(project, module) if module.of_parts(_speaks_of_autocast) else ()
    return {item.node: item for item in found}


def _speaks_of_autocast(module: ModuleNames) -> bool:
    return "autocast" in module.document.text


@fact
def open_region(project: Project) -> DtypeSource | None:
    """Where the project opens an autocast region: its models run inside of it. None where no file does."""
    for module in modules_with(project, ("autocast",)):
        for item in autocasts_by_node(project, module).values():
            if not item.switched_off:
                return DtypeSource(module.path, item.node, "autocast is entered here: layers give 16 bits inside")
    return None


def entered(frame: Frame, expression: ast.expr) -> AutocastState:
    """The state inside ``with <expression>:``."""
    autocast = autocasts_by_node(frame.project, frame.module).get(expression)
    if autocast is not None:
        return opened(frame.project, autocast)
    called = expression.func if isinstance(expression, ast.Call) else expression
    name = last_name(called)
    if isinstance(called, ast.Attribute) and isinstance(expression, ast.Call) and name in OWN_METHODS:
        return AutocastState(Autocasting.ON)
    bound = _bound_autocast(frame, called)
    if bound is not None:
        return opened(frame.project, bound)
    if any(word in name.lower() for word in MAYBE_WORDS):
        return AutocastState(Autocasting.MAYBE)
    return frame.autocast


def _bound_autocast(frame: Frame, name: ast.expr) -> Autocast | None:
    """``ctx = nullcontext() if ... else torch.autocast(...)``; ``amp = partial(torch.autocast, ...)``."""
    if not isinstance(name, ast.Name):
        return None
    index = autocasts_by_node(frame.project, frame.module)
    if not index:
        return None
    for binding in frame.module.bindings_of(name):
        if binding.value is None:
            continue
        for node in ast.walk(binding.value):
            if node in index:
                return index[node]
    return None


def opened(project: Project, autocast: Autocast) -> AutocastState:
    """The state inside a region made by ``autocast``."""
    device = autocast.device or "cuda"
    if autocast.switched_off:
        return AutocastState(Autocasting.OFF)
    values = {scenario.value for scenario in dtype_scenarios(project, autocast)}
    named = frozenset(value for value in values if isinstance(value, Dtype))
    dtype = next(iter(named)) if len(values) == len(named) == 1 else None
    if dtype is not None and dtype.name == "float32" and device == "cpu":
        return AutocastState(Autocasting.OFF)  # refused there with a warning; CUDA casts weights and inputs to it
    symbol = "" if dtype is not None else "autocast"
    role = None if dtype is not None else Role.AUTOCAST
    how = "computes" if dtype is not None else "can compute"
    types = " or ".join(sorted(item.name for item in named)) or "the low precision"
    source = DtypeSource(autocast.module.document.path, autocast.node, f"autocast {how} in {types}")
    atom = Atom(dtype, symbol, role, made=MadeHow.AUTOCAST, candidates=named, source=source)
    return AutocastState(Autocasting.ON, atom, device, source)


def decorated(project: Project, module: ModuleNames, function: ast.FunctionDef | ast.AsyncFunctionDef) -> AutocastState:
    """The state at the start of a function: a decorator may open a region; a caller may have."""
    index = autocasts_by_node(project, module) if function.decorator_list else {}
    for decorator in function.decorator_list:
        if decorator in index:
            return opened(project, index[decorator])
    return UNDECORATED
