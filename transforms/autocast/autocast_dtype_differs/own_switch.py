"""An autocast that its own condition switches on for bfloat16, and that has no dtype."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ....codemod.purpose.regimes import switches_bf16_on
from ....codemod.purpose.steps import alternatives, is_beside_training, is_crowded
from ....codemod.python.conditions import conditions_in, excludes
from ....codemod.python.paths import guards
from ....codemod.python.visible import means_the_same
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast
from ....codemod.torch.dtype_values import scenarios_of
from ....codemod.torch.dtypes import BF16, Dtype, TextCondition, as_dtype
from .compute_dtypes import NamedDtype, bf16_is_asked_for, is_impossible, named_in_torch

MAX_NAMES = 3
"""How many names a switch may hide behind: ``enabled=use_amp`` where ``use_amp = dtype in (...)``."""


def own_switch(project: Project, region: Autocast) -> NamedDtype | None:
    """The setting that switches the region on where it asks for bfloat16."""
    if region.form == "with" and is_beside_training(project, region.module, region.node):
        return None  # a sample that is drawn when training is over
    if is_crowded(project, region) or any(item.dtype_node is not None for item in alternatives(project, region)):
        return None
    for test in _switches(region):
        for item in _wanted(project, region, test, MAX_NAMES):
            if item.equal and _can_be_bf16(project, region, item) and not _is_excluded(project, region, item):
                what = f"its own condition switches it on where {_state_of(item)}"
                return NamedDtype(test, what, f"{item.text} is asked here", _dtype_text(project, region, item))
    return None


def _switches(region: Autocast) -> Iterator[ast.expr]:
    if region.enabled_node is not None:
        yield region.enabled_node
    else:
        yield from (guard.test for guard in guards(region.module, region.node) if guard.holds and guard.leaving is None)


def _is_excluded(project: Project, region: Autocast, item: TextCondition) -> bool:
    """Whether the tests around the region leave bfloat16 out: ``if dtype == torch.float16:`` further up."""
    module = region.module
    return excludes(_as_bf16(item), conditions_in(project, module).path_given(region.node))


def _as_bf16(item: TextCondition) -> TextCondition:
    return replace(item, values=(True,) if item.values == (True,) else (BF16,))


def _wanted(project: Project, region: Autocast, test: ast.expr, names: int) -> Iterator[TextCondition]:
    """What makes ``test`` true: all that it asks for, or one of the sides of an ``or``."""
    conditions = conditions_in(project, region.module)
    if isinstance(test, ast.BoolOp):
        required = conditions.given(test, True)
        sides = (item for side in test.values for item in _wanted(project, region, side, names))
        yield from (item for item in sides if item in required or not excludes(_as_bf16(item), required))
        return
    yield from conditions.given(test, True)
    values = conditions.assigned_values(test) if names and isinstance(test, ast.Name | ast.Attribute) else []
    if len(values) == 1:
        yield from _wanted(project, region, values[0], names - 1)


def _can_be_bf16(project: Project, region: Autocast, item: TextCondition) -> bool:
    """Whether what is asked for is bfloat16, and some run has it so."""
    values, module = {as_dtype(value) for value in item.values}, region.module
    if BF16 not in values:
        return values == {True} and switches_bf16_on(item.text)
    found = [each for each in scenarios_of(project, module, item.node) if as_dtype(each.value) == BF16]
    return bf16_is_asked_for(project) or any(not is_impossible(project, module, each) for each in found)


def _state_of(item: TextCondition) -> str:
    return f"{item.text} is set" if item.values == (True,) else f"{item.text} is bfloat16"


def _dtype_text(project: Project, region: Autocast, item: TextCondition) -> str | None:
    if not means_the_same(region.module, item.node, region.node):
        return None
    if all(isinstance(value, Dtype) for value in item.values):
        return ast.unparse(item.node)
    return named_in_torch(project, region, item)
