"""A float16 loss that is stepped as it is, in a file whose scaler scales the loss of another optimizer."""

from __future__ import annotations

import ast

from ....codemod.model import Place
from ....codemod.python.arguments import owner_of
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.paths import exclusive, function_of, position
from ....codemod.source.project import Project
from ....codemod.torch.scaler import Scaler
from ....codemod.torch.scalers import scalers
from ....codemod.torch.unscaled_steps import LossStep, names_scaling
from ..given_runs import is_on

PLAIN = ("scale", "step", "update", "unscale_", "assigned", "none-test", "state_dict", "load_state_dict")
"""Uses of a scaler that do nothing to the gradients of another optimizer."""


def beside_scaled(project: Project, step: LossStep) -> tuple[Place, ...]:
    """The scaler that steps every optimizer of the file but the one of this step, and where it scales; else nothing."""
    module, loss = step.module, getattr(step.backward.func, "value", None)
    later = [call for call in step.steps if position(call) > position(step.backward)]
    later = [call for call in later if not exclusive(module, call, step.backward)]
    if not isinstance(loss, ast.Name) or step.backward.args or len(later) != 1 or _is_scaled_otherwise(project, step):
        return ()
    for scaler in scalers(project):
        scales = [use.node for use in scaler.uses_of("scale") if use.module is module]
        if scales and _leaves(scaler, module, owner_of(later[0])) and is_on(project, scaler):
            shown = next((node for node in scales if function_of(module, node) is step.function), scales[0])
            if not any(exclusive(module, shown, call) for call in (step.backward, later[0])):
                return (module.place(shown, "another loss is scaled here"),)
    return ()


def _leaves(scaler: Scaler, module: ModuleNames, optimizer: str) -> bool:
    """Whether a scaler steps optimizers of a file, and never this one, as far as all of its uses are seen."""
    steps = [use.call for use in scaler.uses_of("step", "unscale_") if use.call is not None]
    given = {ast.unparse(call.args[0]) if call.args else "" for call in steps}
    seen = all(use.kind in PLAIN and use.module is module for use in scaler.uses)
    return scaler.kind == "direct" and seen and bool(given) and "" not in given and optimizer not in given


def _is_scaled_otherwise(project: Project, step: LossStep) -> bool:
    """Whether the function names something that may scale, beside the scalers that are known."""
    mine = [scaler for scaler in scalers(project) if step.module in scaler.modules]
    known = {last_name(node) for scaler in mine for node in (scaler.call.func, *(use.node for use in scaler.uses))}
    named = (node for node in ast.walk(step.function) if isinstance(node, ast.Name | ast.Attribute))
    return any(names_scaling(_alone(node)) for node in named if last_name(node) not in known)


def _alone(node: ast.Name | ast.Attribute) -> ast.Name:
    """Its last name, as code of its own."""
    return ast.Name(last_name(node), ast.Load())
