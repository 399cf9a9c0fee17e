"""The steps of a LightningModule: they run inside autocast where a Trainer that reaches the module is mixed."""

from __future__ import annotations

import ast

from ..python.functions import all_bases
from ..python.names import FunctionNode, ModuleNames, resolve
from ..source.project import Project
from ..torch.api import LIGHTNING
from .runs import HalfProgram, runs_of

STEPS = ("training_step", "validation_step", "test_step", "predict_step")


def step_runs(project: Project, module: ModuleNames, function: FunctionNode) -> tuple[HalfProgram, ...]:
    """The Trainers that run a step of a LightningModule under autocast; empty for any other function."""
    owner = module.scopes[function].parent
    if function.name not in STEPS or owner is None or not isinstance(owner.node, ast.ClassDef):
        return ()
    if not is_lightning_module(project, module, owner.node):
        return ()
    return tuple(run for run in runs_of(project, module, function) if run.trainer == "lightning" and run.is_mixed)


def is_lightning_module(project: Project, module: ModuleNames, owner: ast.ClassDef) -> bool:
    """Whether a class is a LightningModule, also by way of the project's own classes."""
    named = (resolve(project, other, base) or "" for other, base in all_bases(project, module, module.scopes[owner]))
    return any(name.partition(".")[0] in LIGHTNING and name.endswith("LightningModule") for name in named)
