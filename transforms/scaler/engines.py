"""DeepSpeed's engines and accelerate in float16: both scale the loss, and their optimizers unscale by themselves."""

from __future__ import annotations

import ast

from ...codemod.model import Place
from ...codemod.purpose.runs import HalfProgram, runs_of
from ...codemod.python.creations import known_creations
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import exclusive
from ...codemod.source.project import Project
from ...codemod.torch.api import ACCELERATOR
from ...codemod.torch.dtypes import FP16
from ...codemod.trainers.reading.links import sources
from ...codemod.trainers.reading.source import GIVEN

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


def float16_runs(project: Project, module: ModuleNames, made: ast.Call) -> list[HalfProgram]:
    """The training runs of an engine, where each of them is in float16; else none."""
    runs = [run for run in runs_of(project, module, made) if run.trains]
    return runs if all(run.by_engine and run.dtypes == {FP16} for run in runs) else []


def float16_of_accelerate(
    project: Project, module: ModuleNames, backward: ast.Call, at: ast.Call | None = None
) -> Place | None:
    """What makes the Accelerator of ``accelerator.backward(loss)`` compute in float16: its argument, else a launch.

    Asked for ``at``, an Accelerator does not count that is made only where the tests around that come out otherwise.
    """
    if not isinstance(backward.func, ast.Attribute) or not backward.args:
        return None
    every = known_creations(project, module, backward.func.value)
    apart = [made for made in every if made.module is module and exclusive(module, made.call, at or backward)]
    others = [module.place(made.call, "") for made in apart]
    for made in every:
        if made in apart or made.module.qualified(made.call.func) not in ACCELERATOR:
            continue
        node = next((item.value for item in made.call.keywords if item.arg == "mixed_precision"), None)
        if node is not None:
            found = [item for item in sources(project, made.module, node) if not item.is_guessed]
            given = [item for item in found if item.kind in GIVEN] or found
            source = next((item for item in given if item.value == "fp16"), None)
            return source.place("float16 is chosen here") if source is not None else None
        if not made.call.args and None not in {item.arg for item in made.call.keywords}:
            runs = (run for run in runs_of(project, module, backward) if run.trainer == "accelerate")
            told = (run.place for run in runs if run.regimes == {"fp16-mixed"} and not run.by_engine)
            return next((place for place in told if not any(_is_within(place, other) for other in others)), None)
    return None


def _is_within(place: Place, other: Place) -> bool:
    return place.path == other.path and other.span.contains(place.span)
