"""Calls of one of several modules: which one it is, nobody knows before the program runs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

from ..torch.tables.layers import LAYERS
from .classes import TorchLayer
from .containers import of_container
from .frame import FlowRecord, Frame
from .lattice import Alternatives, Value, join

CHOSEN = "chosen"
"""The label of a module whose class was chosen through a variable or a dictionary."""
Apply = Callable[[Value], Value]


def applied_any(frame: Frame, node: ast.Call, module: Value, alternatives: Alternatives, apply: Apply) -> Value:
    """What any of some modules gives; what is met in all of them is met, the rest is not."""
    seen: list[FlowRecord] = []
    of_parts: list[FlowRecord] = []
    values: list[Value] = []
    for part in alternatives.values:
        with aside(frame) as record:
            values.append(apply(of_container(part, module)))
        if frame.run is not None or _has_weights(part):
            seen.append(record)
        if _has_weights(part):
            of_parts.append(record)
    _keep_what_all_met(frame.record, seen)
    if of_parts and all(each.of_parts for each in of_parts):  # a part that was cast has weights
        frame.record.take_parts(of_parts[0], frame.module, node)
    return reduce(join, values)


@contextmanager
def aside(frame: Frame) -> Iterator[FlowRecord]:
    """Follow what may not be done at all: what meets there is kept apart."""
    kept = frame.record
    frame.record = FlowRecord(observed=kept.observed)
    if frame.run is None:
        yield frame.record
    else:
        with frame.run.recording(frame.record):
            yield frame.record
    frame.record = kept


def _has_weights(part: Value) -> bool:
    layer = LAYERS.get(part.detail.name) if isinstance(part.detail, TorchLayer) else None
    return layer is None or layer.has_weights


def _keep_what_all_met(record: FlowRecord, seen: Sequence[FlowRecord]) -> None:
    for each in seen:
        record.applications |= each.applications
        record.values |= each.values
        record.products |= each.products
    if seen and all(each.meetings for each in seen):
        for meeting in (meeting for each in seen for meeting in each.meetings):
            record.meet(meeting)
    handed = [{item.symbol for item in each.inputs} for each in seen]
    common = set.intersection(*handed) if handed else set()
    record.inputs |= {item for each in seen for item in each.inputs if item.symbol in common}
