"""Which autocast regions with a dtype belong to a training step, and which evaluate."""

from __future__ import annotations

from ....codemod.purpose.steps import is_evaluation
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, is_float32_island, training_autocasts

Regions = dict[ModuleNames, tuple[Autocast, ...]]


def training_regions(project: Project) -> Regions:
    """The regions with a dtype, by file, in files that train; those that evaluate left out."""
    return project.fact(_split)[0]


def evaluation_regions(project: Project) -> Regions:
    """The regions with a dtype, by file, that evaluate in files that train."""
    return project.fact(_split)[1]


def _split(project: Project) -> tuple[Regions, Regions]:
    training: Regions = {}
    evaluating: Regions = {}
    for item in training_autocasts(project):
        on_cuda = item.dtype_node is not None and item.device in ("cuda", None)
        if on_cuda and not is_float32_island(project, item):
            found = evaluating if is_evaluation(item) else training
            found[item.module] = (*found.get(item.module, ()), item)
    return training, evaluating
