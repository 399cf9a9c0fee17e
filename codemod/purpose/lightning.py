"""The steps of a LightningModule: they run inside autocast where a Trainer that reaches the module is mixed."""

from __future__ import annotations

import ast

from ..python.names import FunctionNode, ModuleNames, resolve
from ..source.project import Project
from ..torch.api import LIGHTNING
from .runs import Run, runs_of

STEPS = ("training_step", "validation_step", "test_step", "predict_step")


def step_runs(project: Project, module: ModuleNames, function: FunctionNode) -> tuple[Run, ...]:
    """The Trainers that run a step of a LightningModule under autocast; empty for any other function."""
    owner = module.scopes[function].parent
    if function.name not in STEPS or owner is None or not isinstance(owner.node, ast.ClassDef):
        return ()
    bases = [resolve(project, module, base) or "" for base in owner.node.bases]
    if not any(base.partition(".")[0] in LIGHTNING and base.endswith("LightningModule") for base in bases):
        return ()
    return tuple(run for run in runs_of(project, module, function) if run.trainer == "lightning" and run.is_mixed)
