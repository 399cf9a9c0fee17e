"""Whether the steps behind a region scale their loss: float16 without that loses small gradients in silence."""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.purpose.runs import starts_of
from ....codemod.purpose.training import training_modules
from ....codemod.python.names import ModuleNames
from ....codemod.source.project import Project
from ....codemod.torch.autocast import runs_without_gradients
from ....codemod.torch.scaler_edits.add_scaler import fix
from ....codemod.torch.scalers import scalers
from ....codemod.torch.unscaled_steps import scales_somehow, training_step
from .training_autocasts import TrainingRegion

UNSCALED = "nothing is seen to scale the loss, which float16 needs: add a GradScaler to the training step first"


def is_left_unscaled(project: Project, region: TrainingRegion) -> bool:
    """Whether a step of the region's programs runs ``backward`` on a loss that nothing scales, nor PF102 can."""
    if runs_without_gradients(region.autocast):
        return False
    stepping = list(_stepping(project, region.module))
    if not stepping or all(_scales(project, module) for module in stepping):
        return False
    step = training_step(project, region.autocast)
    return region.dtype is None or step is None or fix(project, step) is None


def _stepping(project: Project, module: ModuleNames) -> Iterator[ModuleNames]:
    """The files of the region's programs that call ``backward`` themselves."""
    trained = training_modules(project)
    near = (module,) if module in trained else starts_of(project, module)
    return (item for item in near if item in trained and "backward" in item.calls_by_name)


def _scales(project: Project, module: ModuleNames) -> bool:
    return scales_somehow(project, module) or any(module in scaler.modules for scaler in scalers(project))
