"""Which autocast regions with a dtype belong to a training step, and which evaluate."""

from __future__ import annotations

from ....codemod.purpose.regions import EVALUATION_NAMES, function_scope
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import Autocast, autocasts, is_float32_island, runs_without_gradients

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
    for item in autocasts(project):
        if item.dtype_node is None or item.device not in ("cuda", None) or "backward(" not in item.module.document.text:
            continue
        if not is_float32_island(project, item):
            found = evaluating if runs_without_gradients(item) or is_evaluation(item) else training
            found[item.module] = (*found.get(item.module, ()), item)
    return training, evaluating


def trains(item: Autocast) -> bool:
    """Whether the region's function runs ``backward``."""
    return _calls(item, "backward")


def scales(item: Autocast) -> bool:
    """Whether the region's function scales a loss."""
    return _calls(item, "scale")


def _calls(item: Autocast, name: str) -> bool:
    scope = function_scope(item.module, item.node)
    return any(function_scope(item.module, call) is scope for call in item.module.calls_by_name.get(name, []))


def is_evaluation(item: Autocast) -> bool:
    """Whether the region's function is called like one that evaluates."""
    name = getattr(function_scope(item.module, item.node).node, "name", "").lower()
    return any(name.startswith(word) or f"_{word}" in name for word in EVALUATION_NAMES) and "train" not in name
