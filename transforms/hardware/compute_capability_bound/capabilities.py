"""Comparisons with the compute capability of a GPU, and what they hold for."""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ....codemod.python.bindings import only_value, position_in_targets
from ....codemod.python.names import ModuleNames

ASKS = "torch.cuda.get_device_capability"
PROPERTIES = "torch.cuda.get_device_properties"
FIRST_NATIVE = (8, 0)
GPUS = ((6, 0), (6, 1), (7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0))
"""Compute capabilities of GPUs in use: P100, GTX 10, V100, T4, A100, RTX 30, RTX 40, H100, B200, RTX 50."""
OPERATORS = {
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
Bound: TypeAlias = "int | float | tuple[int, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """``capability <operator> bound``, of the pair of numbers or of the major one."""

    node: ast.Compare
    is_pair: bool
    bound: Bound

    @property
    def fails(self) -> bool:
        """Whether a pair is compared with a single number."""
        return self.is_pair and not isinstance(self.bound, tuple)

    @property
    def is_order(self) -> bool:
        """Whether it asks for more or less."""
        return not isinstance(self.node.ops[0], ast.Eq | ast.NotEq)

    def held_by(self) -> frozenset[tuple[int, int]]:
        """The GPUs that it holds for."""
        compare = OPERATORS[self.node.ops[0].__class__]
        return frozenset(gpu for gpu in GPUS if compare(gpu if self.is_pair else gpu[0], self.bound))


def comparisons(module: ModuleNames) -> Iterator[Comparison]:
    """Every comparison of a capability with a number, or numbers, that is written there."""
    for node in module.of_type(ast.Compare):
        if len(node.ops) != 1 or node.ops[0].__class__ not in OPERATORS:
            continue
        bound = _bound(node.comparators[0])
        if bound is None:
            continue
        if _is_pair(module, node.left):
            yield Comparison(node, True, bound)
        elif _is_major(module, node.left) and not isinstance(bound, tuple):
            yield Comparison(node, False, bound)


def _bound(node: ast.expr) -> Bound | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return node.value
    if isinstance(node, ast.Tuple) and len(node.elts) == 2:
        values = [item.value for item in node.elts if isinstance(item, ast.Constant) and isinstance(item.value, int)]
        return tuple(values) if len(values) == 2 else None
    return None


def _is_pair(module: ModuleNames, node: ast.expr) -> bool:
    value = only_value(module, node) if isinstance(node, ast.Name) else node
    return isinstance(value, ast.Call) and module.qualified(value.func) == ASKS and not module.is_ambiguous(value.func)


def _is_major(module: ModuleNames, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        value = only_value(module, node)
        return _reads_major(module, value) if value is not None else _is_unpacked(module, node)
    return _reads_major(module, node)


def _reads_major(module: ModuleNames, node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and node.slice.value == 0 and _is_pair(module, node.value)
    if isinstance(node, ast.Attribute) and node.attr == "major":
        owner = only_value(module, node.value) if isinstance(node.value, ast.Name) else node.value
        return isinstance(owner, ast.Call) and module.qualified(owner.func) == PROPERTIES
    return False


def _is_unpacked(module: ModuleNames, node: ast.Name) -> bool:
    """``major, minor = torch.cuda.get_device_capability()``."""
    bindings = module.scope_of(node).lookup(node.id)
    statement = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(statement, ast.Assign) or position_in_targets(statement, node.id) != 0:
        return False
    return _is_pair(module, statement.value)
