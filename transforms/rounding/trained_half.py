"""Models that are loaded in 16 bits and trained as a whole by a trainer of transformers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.python.keywords import keywords_of
from ...codemod.python.names import ModuleNames
from ...codemod.source.project import Project
from ...codemod.torch.dtype_values import constants_of
from ...codemod.torch.dtypes import HALVES, Dtype
from ...codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads
from .launchers import is_held
from .optimizer_table import rows_of_trainer
from .stated_numbers import Stated, largest, stated_numbers

DEFAULT_RATE = 5e-5
"""Of transformers.TrainingArguments."""
OF_TRANSFORMERS = ("hf_trainer",)


@dataclass(frozen=True, slots=True, eq=False)
class HalfTraining:
    """A whole model in 16 bits, a trainer, and how large its steps are."""

    module: ModuleNames
    call: ast.Call
    """The trainer's arguments."""
    dtype: Dtype
    loaded: Place
    rate: Stated
    optimizer: str
    given: dict[str, ast.expr]


def half_trainings(project: Project) -> Iterator[HalfTraining]:
    """The trainings of transformers' Trainer that step 16-bit weights; none where a launcher may hold the weights."""
    seen: set[ast.AST] = set()
    if any(True for _ in project.python_documents(("torch_dtype", "dtype"), ("Trainer",))):
        for run in trained_loads(project):
            found = _training(project, run) if _is_whole(run) else None
            if found is not None and found.call not in seen and not is_held(project, found.module, "accelerate"):
                seen.add(found.call)
                yield found


def _is_whole(run: TrainedLoad) -> bool:
    """Whether all the weights are trained, in the dtype that they were loaded in."""
    changed = run.adapted or run.recast or run.frozen or run.by_accelerate
    special = run.load.quantized or run.load.unsloth or run.precision.partitioned
    return not changed and not special and run.precision.scope.framework.id in OF_TRANSFORMERS


def _training(project: Project, run: TrainedLoad) -> HalfTraining | None:
    dtype = next(iter(run.load.dtypes)) if len(run.load.dtypes) == 1 else None
    module, call = run.precision.module, run.precision.call
    given = keywords_of(module, call)
    if dtype not in HALVES or dtype is None or not given.complete:
        return None
    optimizer = _optimizer(project, module, given.values.get("optim"))
    rate = _rate(project, module, call, given.values.get("learning_rate"))
    if optimizer is None or rate is None:
        return None
    loaded = run.load.module.place(run.load.call, f"the weights are loaded in {dtype.name} here")
    return HalfTraining(module, call, dtype, loaded, rate, optimizer, given.values)


def _optimizer(project: Project, module: ModuleNames, node: ast.expr | None) -> str | None:
    """The optimizer that is asked for, where it keeps nothing of what rounding loses."""
    if node is None:
        return "adamw_torch"
    named = constants_of(project, module, node)
    only = named.pop() if len(named) == 1 else None
    losing = {name for row in rows_of_trainer("hf_trainer", "optim") if row.keeps == "nothing" for name in row.names}
    return only if isinstance(only, str) and only in losing else None


def _rate(project: Project, module: ModuleNames, call: ast.Call, node: ast.expr | None) -> Stated | None:
    if node is None:
        return Stated(DEFAULT_RATE, module.place(call, f"the learning rate is the default, {DEFAULT_RATE:g}"))
    return largest(stated_numbers(project, module, node, "the learning rate"))
