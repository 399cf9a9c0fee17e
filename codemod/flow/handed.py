"""What a call gives the parameters of a function."""

from __future__ import annotations

import ast

from ..python.functions import FunctionTarget
from ..python.names import parameters_of
from .lattice import UNKNOWN_VALUE, Kind, Value
from .meetings import NodeValue


def lacks_dtypes(value: Value) -> bool:
    """Whether some tensor in a value may have a dtype that is not known."""
    if value.items is not None:
        return any(lacks_dtypes(item) for item in value.items)
    return value.kind is Kind.UNKNOWN or (value.kind is Kind.TENSOR and not value.atoms)


def handed_over(
    target: FunctionTarget, node: ast.Call, positional: list[NodeValue], named: list[tuple[str, ast.expr, Value]]
) -> dict[str, NodeValue]:
    """What a call gives each parameter, ``**record`` by the keys that it is known to hold."""
    values = dict(positional) | {item: value for key, item, value in named if key != "**"}
    arguments = target.arguments(node)
    found = {name: (item, values.get(item, UNKNOWN_VALUE)) for name, item in arguments.items()}
    unpacked = {item.value for item in node.keywords if item.arg is None}
    if not unpacked:
        return found
    known = {parameter.arg for parameter in parameters_of(target.node)} - found.keys()
    return found | {key: (item, value) for key, item, value in named if item in unpacked and key in known}
