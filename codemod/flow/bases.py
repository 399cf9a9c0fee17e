"""What classes inherit: ``super().forward(x)`` in a method, the layer of torch that a class is one of."""

from __future__ import annotations

import ast

from ..python.functions import all_bases, lineage
from ..torch.tables.layers import LAYERS
from .call_dtypes import NamedValues
from .classes import ProjectClass
from .frame import Frame
from .lattice import UNKNOWN_VALUE, Kind, Value
from .layer_calls import layer_forward
from .meetings import NodeValue


def layer_of(frame: Frame, found: ProjectClass) -> str:
    """The layer of ``torch.nn`` that a class derives from; empty for none that has weights."""
    for module, base in all_bases(frame.project, found.module, found.scope):
        name = (frame.analysis.qualified(module, base) or "").removeprefix("torch.nn.").rpartition(".")[2]
        if name in LAYERS and LAYERS[name].role in ("weighted", "lookup"):
            return name
    return ""


def is_super(node: ast.expr) -> bool:
    """``super()``, ``super(Net, self)``."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super"


def of_base(frame: Frame, node: ast.Call, name: str, positional: list[NodeValue], named: NamedValues) -> Value:
    """What ``super().name(...)`` gives: the method of the next class that has one, or the layer itself."""
    owner = frame.analysis.owner(frame.module, frame.function) if frame.function is not None else None
    own = frame.get("self")
    if owner is None or own is None or own.kind is not Kind.MODULE or name == "__init__":
        return UNKNOWN_VALUE
    for module, scope in list(lineage(frame.project, owner.module, owner.scope))[1:]:
        target = frame.analysis.method(ProjectClass(module, scope), name)
        if target is not None and target.node is not frame.function:
            return frame.analysis.applied(frame, node, target, positional, named, own)
    layer = layer_of(frame, owner) if name == "forward" else ""
    return layer_forward(frame, node, layer, own, positional) if layer else UNKNOWN_VALUE
