"""The project's own switch for mixed precision around a region, and what it is set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import BF16, FP16, Dtype, as_dtype
from ....codemod.trainers.reading import region_switches
from ....codemod.trainers.reading.links import sources
from ....codemod.trainers.reading.source import Source


@dataclass(frozen=True, slots=True, eq=False)
class Switch:
    """An expression that must be true for a region to compute in 16 bits, and where it is given its value."""

    module: ModuleNames
    node: ast.expr
    sources: tuple[Source, ...]

    @property
    def text(self) -> str:
        return ast.unparse(self.node)

    @property
    def is_off_by_default(self) -> bool:
        """Whether everything that is known to set it says no."""
        return bool(self.sources) and all(item.value is False or item.value is None for item in self.sources)

    @property
    def on(self) -> tuple[Source, ...]:
        """The places that switch it on."""
        return tuple(item for item in self.sources if item.value is True)


def switches_of(project: Project, item: Autocast) -> tuple[Switch, ...]:
    """The switches of a region: its ``enabled=`` and the tests of mixed precision around it."""
    nodes = (switch.node for switch in region_switches.switches_of(item) if switch.opens)
    return tuple(Switch(item.module, node, sources(project, item.module, node)) for node in nodes)


def half_asked_by(project: Project, item: Autocast, wanted: Dtype) -> str:
    """``enabled=dtype == torch.float16``: the expression that asks for another 16-bit dtype than ``wanted``."""
    for node in _followed(item.module, item.enabled_node):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Eq | ast.Is):
            continue
        for side in (node.left, node.comparators[0]):
            asked = {as_dtype(value) for value in constants_of(project, item.module, side)}
            if asked and asked <= {BF16, FP16} and wanted not in asked and isinstance(item.enabled_node, ast.expr):
                return ast.unparse(item.enabled_node)
    return ""


def _followed(module: ModuleNames, node: ast.expr | None) -> Iterator[ast.expr]:
    """``node``, and what a variable is given."""
    if node is None:
        return
    yield node
    if isinstance(node, ast.Name):
        for binding in module.scope_of(node).lookup(node.id):
            if binding.value is not None:
                yield binding.value
