"""What ``nn.ModuleList``, ``nn.ModuleDict`` and ``nn.Sequential`` hold, and what comes out of a sequence of modules."""

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
    if not positional:
        return ()
    if name == "ModuleList":
        values = positional[0][1].items or () if len(positional) == 1 else ()
    else:
        values = tuple(part for item, value in positional for part in _spread(item, value))
    known = bool(values) and all(value.kind is Kind.MODULE for value in values)
    return values if known and len(values) <= MAX_PARTS else None


def _spread(item: ast.expr, value: Value) -> tuple[Value, ...]:
    """One argument, or what ``*layers`` stands for."""
    return (value.items or (UNKNOWN_VALUE,)) if isinstance(item, ast.Starred) else (value,)


def named_parts(container: Value, name: str, positional: Sequence[NodeValue]) -> Value:
    """``nn.ModuleDict({"norm": norm})`` with what its keys hold."""
    given = positional[0][1] if name == "ModuleDict" and len(positional) == 1 else UNKNOWN_VALUE
    known = given.kind is Kind.RECORD and all(value.kind is Kind.MODULE for value in given.fields().values())
    return container.with_fields(given.fields()) if known else container


def holds_by_name(container: Value) -> bool:
    """Whether a value is a ``ModuleDict`` whose parts are known."""
    return bool(container.keys) and isinstance(container.detail, TorchLayer)


def part_named(container: Value, name: str) -> Value:
    """``parts.norm`` and ``parts["norm"]`` of a ``ModuleDict``."""
    part = container.fields().get(name)
    return UNKNOWN_VALUE if part is None else part_with(of_container(part, container), container.recast, (name,))


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
    if holds_by_name(container):
        return part_named(container, str(index.value)) if isinstance(index, ast.Constant) else UNKNOWN_VALUE
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
