"""Lightning with a GradScaler of its own: what chooses ``16-mixed`` for every trainer of a project."""

from __future__ import annotations

from ...codemod.model import Place
from ...codemod.purpose.files import is_test
from ...codemod.source.documents import FileKind
from ...codemod.source.project import Project
from ...codemod.trainers.reading.declarations import scopes_of
from ...codemod.trainers.reading.precision import precision_of
from ...codemod.trainers.reading.scopes import SettingScope

OTHER_SCALERS = ("deepspeed", "DeepSpeed", "Fabric", "MixedPrecision", "amp_backend")
"""Whoever has one of these in its project may scale and unscale in another way, or not at all."""


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
