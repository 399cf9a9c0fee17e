"""Lightning with a GradScaler of its own: what chooses ``16-mixed`` for every trainer of a project, or for a Fabric."""

from __future__ import annotations

import ast

from ...codemod.model import Place
from ...codemod.purpose.files import is_test
from ...codemod.python.arguments import argument, hides_arguments, receiver_of
from ...codemod.python.creations import creations_of
from ...codemod.python.names import ModuleNames, string_of
from ...codemod.source.documents import FileKind
from ...codemod.source.project import Project
from ...codemod.trainers.reading.declarations import scopes_of
from ...codemod.trainers.reading.links import sources
from ...codemod.trainers.reading.precision import precision_of
from ...codemod.trainers.reading.scopes import SettingScope
from ...codemod.trainers.reading.source import GIVEN

OTHER_SCALERS = ("deepspeed", "DeepSpeed", "Fabric", "MixedPrecision", "amp_backend")
"""Whoever has one of these in its project may scale and unscale in another way, or not at all."""

FABRICS = frozenset(
    f"{package}.Fabric"
    for package in (
        "lightning",
        "lightning.fabric",
        "lightning.fabric.fabric",
        "lightning_fabric",
        "lightning_fabric.fabric",
    )
)
MIXED = ("16-mixed", "16")
REPLICATED = ("auto", "dp", "ddp", "ddp_spawn", "ddp_find_unused_parameters_true")
"""Strategies that leave the scaling to the precision."""


def float16_of_fabric(project: Project, module: ModuleNames, setup: ast.Call) -> Place | None:
    """What puts the Fabric of ``fabric.setup(...)`` in mixed precision with float16 and its own scaler."""
    fabric = receiver_of(setup)
    ways = creations_of(project, module, fabric) if fabric is not None else ()
    made = ways[0] if len(ways) == 1 else None
    if made is None or made.module.qualified(made.call.func) not in FABRICS or hides_arguments(made.call):
        return None
    strategy, precision = (argument(made.call, name, position=at) for name, at in (("strategy", 1), ("precision", 4)))
    own = strategy is not None and string_of(strategy) not in REPLICATED
    on_cpu = string_of(argument(made.call, "accelerator", position=0)) == "cpu"
    if precision is None or own or on_cpu or argument(made.call, "plugins", position=5) is not None:
        return None
    found = [item for item in sources(project, made.module, precision) if not item.is_guessed]
    given = [item for item in found if item.kind in GIVEN] or found
    fits = bool(given) and all(item.value in MIXED for item in given)
    return given[0].place("float16 is chosen here") if fits else None


def float16_of_lightning(project: Project) -> Place | None:
    """Where mixed precision with float16 is chosen, if nothing chooses another precision or another scaler."""
    kinds = (FileKind.PYTHON, FileKind.YAML, FileKind.TOML)
    if any(True for kind in kinds for _ in project.documents(kind, OTHER_SCALERS)):
        return None
    scopes = [scope for scope in scopes_of(project) if scope.framework.id == "lightning" and not is_test(scope.path)]
    found = [item for item in (precision_of(project, scope) for scope in scopes) if item.setting is not None]
    fits = all(item.regimes == {"fp16-mixed"} and not _is_on_cpu(item.scope) for item in found)
    return found[0].place if found and fits else None


def _is_on_cpu(scope: SettingScope) -> bool:
    """There Lightning takes bfloat16 for ``16-mixed``."""
    accelerator = scope.last("accelerator")
    return accelerator is not None and accelerator.value == "cpu"
