"""The 16-bit weights that one optimizer steps."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ..python.creations import creations_of
from ..python.names import ModuleNames
from ..python.paths import Facts, function_of, guard_facts
from ..source.project import Project
from ..torch.dtypes import Dtype
from .half_weights import HalfWeights, half_weights, models_of
from .weight_changes import Change


@dataclass(frozen=True, slots=True)
class SteppedWeights:
    """A model of 16-bit weights, and the optimizer that takes its parameters."""

    module: ModuleNames
    optimizer: ast.Call
    weights: HalfWeights
    change: Change
    """What makes the weights 16-bit."""


def stepped_weights(
    project: Project, module: ModuleNames, optimizer: ast.expr, dtype: Dtype, known: Facts = frozenset()
) -> SteppedWeights | None:
    """The weights of 16-bit ``dtype`` behind ``optimizer`` (a variable or ``self`` attribute), when all is certain.

    A cast below the call that makes the optimizer counts up to where this steps, since it changes the parameters in
    place. ``known`` are facts that hold wherever it steps; in another function only attributes are sure to be the same.
    """
    made_by = creations_of(project, module, optimizer)
    if len(made_by) != 1 or made_by[0].through or made_by[0].module is not module:
        return None
    made = made_by[0].call
    if function_of(module, made) is function_of(module, optimizer):
        return weights_of_optimizer(project, module, made, dtype, known, optimizer)
    return weights_of_optimizer(project, module, made, dtype, frozenset(fact for fact in known if "." in fact[0]))


def weights_of_optimizer(
    project: Project,
    module: ModuleNames,
    made: ast.Call,
    dtype: Dtype,
    known: Facts = frozenset(),
    until: ast.AST | None = None,
    *,
    adapters: bool = False,
) -> SteppedWeights | None:
    """The weights of 16-bit ``dtype`` whose parameters the call ``made`` gives to an optimizer, when all is certain.

    ``adapters``: also where only adapters of that dtype are trained.
    """
    known |= guard_facts(module, made)
    for model in models_of_optimizer(module, made, project):
        half = half_weights(project, module, model, made, later=until or False, known=known) if model else None
        if half is not None and half.dtype == dtype and half.change is not None and half.adapted <= adapters:
            return SteppedWeights(module, made, half, half.change)
    return None


def models_of_optimizer(module: ModuleNames, made: ast.Call, project: Project | None = None) -> list[ast.expr | None]:
    """The models of ``torch.optim.X(model.parameters(), ...)``; None for what is not known."""
    if not (module.qualified(made.func) or "").startswith("torch.optim."):
        return []
    given = made.args[:1] or [item.value for item in made.keywords if item.arg == "params"]
    return models_of(module, given[0], project) if given else []
