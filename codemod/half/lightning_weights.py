"""Models of Lightning that its trainers make 16-bit: ``Trainer(precision="bf16-true")``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..model import Place
from ..purpose.files import is_test
from ..python.arguments import receiver_of
from ..python.creations import creations_of
from ..python.functions import all_bases
from ..python.names import ModuleNames, attribute_chain
from ..source.project import Project
from ..torch.dtypes import BF16, FP16, Dtype
from ..trainers.reading.declarations import scope_of_call, scopes_of
from ..trainers.reading.precision import Precision, precision_of
from ..trainers.reading.trained_loads import mentions
from .launchers import LAUNCHES, configures
from .weight_changes import WIDE_ADAPTERS

TRUE = {"bf16-true": BF16, "fp16-true": FP16}
HOLDING = ("deepspeed", "DeepSpeed")
MODULES = ("LightningModule",)
SETUPS = ("setup", "setup_module")
CONFIGURING = "configure_optimizers"


def made_half_by_lightning(project: Project, module: ModuleNames, node: ast.AST) -> tuple[Dtype, Place] | None:
    """What every trainer of the project makes of the weights, where ``node`` stands in ``configure_optimizers``."""
    scope = module.scope_of(node)
    owner = scope.enclosing_class
    if getattr(scope.function.node, "name", "") != CONFIGURING or owner is None:
        return None
    if mentions(owner.node, WIDE_ADAPTERS) or any(_shards(project)):
        return None
    is_lightning = any((attribute_chain(base) or [""])[-1] in MODULES for _, base in all_bases(project, module, owner))
    return project.fact(_of_trainers) if is_lightning else None


def made_half_by_fabric(project: Project, module: ModuleNames, model: ast.expr) -> tuple[Dtype, Place] | None:
    """What ``fabric.setup(model, optimizer)`` makes of the weights."""
    name = ast.unparse(model)
    scope = module.scope_of(model)
    calls = [call for method in SETUPS for call in module.calls_by_name.get(method, [])]
    calls = [call for call in calls if module.scope_of(call) is scope or name.startswith("self.")]
    if mentions(module.tree, WIDE_ADAPTERS):
        return None
    for call in calls:
        fabric = receiver_of(call)
        if fabric is None or not call.args or ast.unparse(call.args[0]) != name:
            continue
        for made in creations_of(project, module, fabric):
            told = scope_of_call(project, made.call)
            found = _asked([precision_of(project, told)]) if told is not None else None
            if found is not None:
                return found
    return None


def _shards(project: Project) -> Iterator[bool]:
    """Whether DeepSpeed may hold float32 copies of the weights."""
    yield from (True for _ in project.python_documents(HOLDING))
    yield from (True for kind in LAUNCHES for _ in project.documents(kind, HOLDING))
    yield configures(project)


def _of_trainers(project: Project) -> tuple[Dtype, Place] | None:
    scopes = (scope for scope in scopes_of(project) if scope.framework.id == "lightning" and not is_test(scope.path))
    return _asked([precision_of(project, scope) for scope in scopes])


def _asked(precisions: Sequence[Precision]) -> tuple[Dtype, Place] | None:
    """The 16-bit type of the weights that all of them ask for."""
    regimes = {regime for item in precisions for regime in item.regimes}
    only = TRUE.get(next(iter(regimes))) if len(regimes) == 1 else None
    stated = next((item for item in precisions if item.regimes), None)
    if only is None or stated is None:
        return None
    return only, stated.place.saying(f"the trainer makes the weights {only.name}")
