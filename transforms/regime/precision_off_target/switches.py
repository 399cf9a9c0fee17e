"""The project's own switch for mixed precision around a region, and what it is set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import BF16, DTYPE_WORDS, FP16, Constant, Dtype, as_dtype
from ....codemod.trainers.reading import region_switches
from ....codemod.trainers.reading.command_options import declared_options
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
    """The switches of a region: its ``enabled=`` and the tests of mixed precision around it.

    Of ``scaler is not None`` what decides whether one is made: ``scaler = GradScaler() if args.amp else None``.
    """
    nodes = [(item.module, switch.node) for switch in region_switches.switches_of(item) if switch.opens]
    nodes += region_switches.made_around(project, item)
    return tuple(Switch(module, node, sources(project, module, node)) for module, node in nodes)


def undecided(project: Project, item: Autocast) -> str:
    """Why a region should not be switched off by itself: an option that nothing here gives a value decides."""
    open_ones = [switch.text for switch in switches_of(project, item) if not switch.sources]
    return f"{open_ones[0]} decides today, and would do nothing then" if open_ones else ""


def half_asked_by(project: Project, item: Autocast, wanted: Dtype) -> str:
    """``enabled=dtype == torch.float16``: the test that asks for another 16-bit dtype than ``wanted``.

    Also where a variable, a parameter or a field has it: what names float16 then must not compute in bfloat16.
    """
    for module, test in region_switches.tests_of(project, item):
        if isinstance(test.ops[0], ast.Eq | ast.Is | ast.In):
            for side in (test.left, test.comparators[0]):
                asked = set(_dtypes(project, module, side))
                if asked and asked <= {BF16, FP16} and wanted not in asked:
                    return ast.unparse(test)
    return next((switch.text for switch in switches_of(project, item) if _is_of_trainer(project, switch, wanted)), "")


def _is_of_trainer(project: Project, switch: Switch, wanted: Dtype) -> bool:
    """``self.args.fp16``, which nothing in the project defines: a trainer's switch for float16 alone."""
    name = switch.node.attr if isinstance(switch.node, ast.Attribute) else ""
    is_other = DTYPE_WORDS.get(name) in {BF16, FP16} - {wanted}
    return is_other and not switch.sources and not declared_options(project, switch.module, name)


def _dtypes(project: Project, module: ModuleNames, side: ast.expr) -> Iterator[Constant]:
    """What one side of a test can be: ``"16-mixed"``, ``16``, each of ``("fp16", "float16")``."""
    for node in side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else (side,):
        for value in constants_of(project, module, node):
            yield as_dtype(str(value) if type(value) is int else value)
