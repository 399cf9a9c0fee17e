"""Engines of DeepSpeed in float16: their optimizers scale the loss, unscale and clip themselves."""

from __future__ import annotations

import ast

from ...codemod.purpose.runs import Run, runs_of
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP16

WITH_OPTIMIZER = ("optimizer", "model_parameters")


def engine_of(module: ModuleNames, made: ast.Call) -> str:
    """What the engine is called: the first of what ``deepspeed.initialize`` gives; empty where nobody knows."""
    statement = module.statement_of(made)
    if module.qualified(made.func) != "deepspeed.initialize" or not isinstance(statement, ast.Assign):
        return ""
    target = statement.targets[0]
    first = target.elts[0] if isinstance(target, ast.Tuple | ast.List) and target.elts else None
    optimized = any(item.arg in WITH_OPTIMIZER for item in made.keywords)
    named = first is not None and attribute_chain(first) is not None and statement.value is made
    return ast.unparse(first) if first is not None and named and optimized else ""


def float16_runs(project: Project, module: ModuleNames, made: ast.Call) -> list[Run]:
    """The training runs of an engine, where each of them is in float16; else none."""
    runs = [run for run in runs_of(project, module, made) if run.trains]
    return runs if all(run.by_engine and run.dtypes == {FP16} for run in runs) else []
