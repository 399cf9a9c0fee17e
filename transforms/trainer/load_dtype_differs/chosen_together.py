"""Loads and trainers that one choice turns to float16: ``--precision fp16`` loads float16 weights, and scales."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft, Place
from ....codemod.purpose.given import is_given
from ....codemod.python.conditions import conditions_in
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import scenarios_of
from ....codemod.torch.dtypes import FP16, Scenario
from ....codemod.trainers.framework import FAMILIES
from ....codemod.trainers.reading.precision import Compute
from ....codemod.trainers.reading.scopes import TRUE
from ....codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads

MESSAGE = (
    "the choice that makes the model float16 has a GradScaler step it: the first step raises 'Attempting to unscale "
    "FP16 gradients' [hf-fp16-weights-fp16-amp]"
)


def loads_chosen_together(project: Project) -> Iterator[Draft]:
    """Where the project states a run that makes the choice, or nothing but its owner decides."""
    for run in trained_loads(project):
        load, node = run.load, run.load.node
        aside = run.recast or run.frozen or run.adapted or run.by_accelerate or load.quantized or load.unsloth
        if node is None or aside or run.precision.partitioned or run.precision.compute is not Compute.UNKNOWN:
            continue
        for scenario in scenarios_of(project, load.module, node):
            switch = _switched_on(project, run, scenario)
            if switch is not None:
                places = (load.module.place(switch, "it switches on mixed precision in float16"), _trained(run))
                yield Draft.at(load.module, node, MESSAGE, places)
                break


def _trained(run: TrainedLoad) -> Place:
    return run.module.place(run.trainer, "the model is passed to the trainer here")


def _switched_on(project: Project, run: TrainedLoad, loaded: Scenario) -> ast.expr | None:
    """What certainly switches on float16 mixed precision where float16 weights are loaded, in a run that is given."""
    module = run.load.module
    if loaded.value != FP16 or not loaded.given or run.precision.module is not module:
        return None
    scope, conditions = run.precision.scope, conditions_in(project, module)
    switches = (item for item in scope.effective() if FAMILIES.get(item.key.meaning(TRUE) or "") == "fp16")
    tests = [argument[1] for item in switches if (argument := scope.argument(item)) is not None]
    asked = next((test for test in tests if conditions.decide(test, loaded.given) is True), None)
    return asked if asked is not None and is_given(project, module, loaded.given) else None
