"""Whether several processes hold the model of a training function: DistributedDataParallel, or who uses it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ....codemod.python.names import ModuleNames, resolve
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.api import ACCELERATOR, FABRIC
from .gradient_casts import CastSite

DDP = ("torch.nn.parallel.DistributedDataParallel", "torch.nn.parallel.distributed.DistributedDataParallel")
BY_ACCELERATE = "accelerate wraps the model in DistributedDataParallel where several processes run"
WRAPPERS = {
    **dict.fromkeys(DDP, "the model is wrapped in DistributedDataParallel"),
    **dict.fromkeys(ACCELERATOR, BY_ACCELERATE),
    **dict.fromkeys(FABRIC, "Fabric wraps the model in DistributedDataParallel where several processes run"),
}
NAMES = ("DistributedDataParallel", "Accelerator", "Fabric")


@dataclass(frozen=True, slots=True, eq=False)
class Replicas:
    """The call that wraps a model, or makes the object that does."""

    module: ModuleNames
    node: ast.Call
    description: str


def replicas_of(project: Project, site: CastSite) -> Replicas | None:
    """What shows in the file of ``site`` that several processes hold its model; None where nothing does."""
    for call in site.module.calls_by_name.get("no_sync", []) + site.module.calls_by_name.get("no_backward_sync", []):
        if function_of(site.module, call) is site.function:
            return Replicas(site.module, call, "gradient reduction is disabled here")
    return _in_module(project, site.module) or _accumulate(site)


def _accumulate(site: CastSite) -> Replicas | None:
    """``with accelerator.accumulate(model):`` where the accelerator is made in another file."""
    around = set(site.module.ancestors(site.node))
    for call in site.module.calls_by_name.get("accumulate", []):
        held = site.module.parents.get(site.module.parents.get(call, call))
        if held in around and "accelerator" in ast.unparse(call.func).lower():
            return Replicas(site.module, call, BY_ACCELERATE)
    return None


def _in_module(project: Project, module: ModuleNames) -> Replicas | None:
    for calls in module.calls_by_name.values():
        for call in calls:
            if isinstance(call.func, ast.Name | ast.Attribute) and _may_wrap(module, call.func):
                description = WRAPPERS.get(resolve(project, module, call.func) or "")
                if description is not None:
                    return Replicas(module, call, description)
    return None


def _may_wrap(module: ModuleNames, node: ast.expr) -> bool:
    return (module.qualified(node) or "").rpartition(".")[2] in NAMES
