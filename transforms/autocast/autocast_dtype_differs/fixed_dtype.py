"""Evaluations whose autocast has a 16-bit dtype written down that is not the one of the training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.python.names import attribute_chain
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, dtype_scenarios
from ....codemod.torch.dtypes import BF16, FP16, Dtype
from .chosen_regions import is_chosen
from .training_regions import evaluation_regions, training_regions


@dataclass(frozen=True, slots=True)
class Fixed:
    """An evaluation that computes in ``dtype`` and the training region of the same model that can compute in others."""

    region: Autocast
    dtype: Dtype
    training: Autocast
    others: str
    """What the training step computes in, as words."""


def fixed_evaluations(project: Project) -> Iterator[Fixed]:
    """Every evaluation of a model in a dtype that its training step, in the same file, does not (always) have."""
    for module, regions in evaluation_regions(project).items():
        training = training_regions(project).get(module, ())
        for region in regions if project.is_checked(module.document.path) else ():
            found = _differing(project, region, training)
            if found is not None:
                yield found


def _differing(project: Project, region: Autocast, training: tuple[Autocast, ...]) -> Fixed | None:
    values = {scenario.value for scenario in dtype_scenarios(project, region)}
    mine = values.pop() if len(values) == 1 else None
    same = [item for item in training if item.form != "with" or _models(item) & _models(region)]
    theirs = {scenario.value for item in same for scenario in dtype_scenarios(project, item)}
    known = [value for value in theirs if isinstance(value, Dtype)]
    if not isinstance(mine, Dtype) or mine not in (BF16, FP16) or not theirs or len(known) != len(theirs):
        return None
    if theirs == {mine} or is_chosen(project, region):
        return None
    return Fixed(region, mine, same[0], " or ".join(sorted(value.name for value in known)))


def _models(region: Autocast) -> set[str]:
    """The last names of what is called in the region's block."""
    block = region.module.statement_of(region.node)
    chains = (attribute_chain(node.func) for node in ast.walk(block) if isinstance(node, ast.Call))
    return {chain[-1] for chain in chains if chain is not None and chain[-1] != "autocast"}
