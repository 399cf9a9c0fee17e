"""What ``nn.ModuleList`` and ``nn.Sequential`` hold, and what comes out of a sequence of modules."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from ..torch.tables.layers import LAYERS
from .classes import TorchLayer
from .lattice import UNKNOWN_VALUE, Kind, Value
from .meetings import NodeValue
from .recast_parts import part_with

LISTS = ("ModuleList", "Sequential")
MAX_PARTS = 16
"""Modules in one container. Longer ones are built in a loop, and then all parts are alike."""


def held(name: str, positional: Sequence[NodeValue]) -> tuple[Value, ...] | None:
    """The modules a container is made with; None where that is not known. One for all, where all are alike."""
    if name not in LISTS:
        return None
    values = tuple(value for _, value in positional)
    if not values:
        return ()
    if name == "ModuleList":
        values = values[0].items or () if len(values) == 1 else ()
    known = bool(values) and all(value.kind is Kind.MODULE for value in values)
    return values if known and len(values) <= MAX_PARTS else None


def one_of(container: Value, index: str | None = None) -> Value:
    """Any one of the modules of a container, where all are of one class; one that is cast, if any of them is.

    ``index``: the text of the index, where one is written.
    """
    parts = container.items or ()
    position = int(index) if index is not None and index.lstrip("-").isdecimal() else None
    if position is not None and len(parts) > 1 and -len(parts) <= position < len(parts):
        return nth_of(container, position % len(parts))
    if not parts or any(part.detail != parts[0].detail or part.items != parts[0].items for part in parts):
        return UNKNOWN_VALUE
    steps = tuple(item.path[0] for item in container.recast if item.path) if index is None else (f"[{index}]",)
    return part_with(of_container(parts[0], container), container.recast, steps[:1])


def chosen_of(container: Value, index: ast.expr) -> Value:
    """``layers[i]`` and ``layers[:n]``; which ones a slice leaves out can be seen where a bound is a literal."""
    if not isinstance(index, ast.Slice):
        return one_of(container, ast.unparse(index))
    bounds = (index.lower, index.upper, index.step)
    return replace(container, recast=()) if any(isinstance(item, ast.Constant) for item in bounds) else container


def nth_of(container: Value, position: int) -> Value:
    """One of the modules of a container that holds each by itself."""
    parts = container.items or ()
    steps = (f"[{position}]", f"[{position - len(parts)}]")
    return part_with(of_container(parts[position], container), container.recast, steps)


def of_container(part: Value, container: Value) -> Value:
    """A part with the weights of its container: it is cast along."""
    return replace(part, atoms=container.atoms if part.atoms else ())


def meets_first(container: Value) -> bool:
    """Whether the input of a sequence reaches weights that do not promote, before anything changes its dtype."""
    for part in container.items or ():
        layer = LAYERS.get(part.detail.name) if isinstance(part.detail, TorchLayer) else None
        if layer is None:
            return False
        if layer.role != "passing":
            return layer.role == "weighted" and layer.mix != "promotes"
    return False
