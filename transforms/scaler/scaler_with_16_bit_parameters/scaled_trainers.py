"""Trainers of transformers that step with a GradScaler: their arguments ask for it, or the launch by accelerate."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ....codemod.half.half_weights import HalfWeights, half_weights
from ....codemod.half.weight_changes import WeightChange
from ....codemod.model import Place
from ....codemod.purpose.decided import decided
from ....codemod.purpose.files import is_test, purpose_of
from ....codemod.python.conditions import conditions_in
from ....codemod.python.creations import creations_of
from ....codemod.python.names import ModuleNames, modules_with
from ....codemod.releases.pins import allowed
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16
from ....codemod.trainers.reading.declarations import scope_of_call
from ....codemod.trainers.reading.launched_loads import launched_loads
from ....codemod.trainers.reading.precision import Compute, precision_of
from ....codemod.trainers.reading.run_members import Run
from ....codemod.trainers.reading.runs import all_runs_of
from ....codemod.trainers.reading.scopes import SettingScope
from ....codemod.trainers.reading.trained_loads import trained_loads, trainer_calls

BY_ACCELERATE = "4.30.0"
"""The first release of transformers whose trainer leaves its GradScaler to accelerate."""
PRECISIONS = ("fp16", "bf16", "mixed_precision")
ELSEWHERE = ("deepspeed", "fsdp", "$", "use_cpu", "no_cuda")
"""Parts of words of a launch line by which something else than the line decides, or holds the weights."""
OF_LAUNCHER = ("megatron", "config", "__cpu", "__tpu")
"""The same before the script."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledPart:
    """A part of a model in float16, and why a GradScaler steps it."""

    name: str
    change: WeightChange
    why: str
    places: tuple[Place, ...]


def scaled_parts(project: Project) -> Iterator[ScaledPart]:
    """The parts in float16 of models that such trainers train."""
    if not any(True for _ in project.python_documents((".half(", "float16"))):
        return
    loads = (*trained_loads(project), *launched_loads(project))
    seen: set[ast.AST] = {run.load.call for run in loads if run.is_scaled_float16}  # PF403 tells these
    for module in modules_with(project, ("Trainer(",)):
        for call, model, arguments, _ in () if is_test(module.path) else trainer_calls(project, module):
            if not (module.qualified(call.func) or "").startswith("transformers."):
                continue
            half = half_weights(project, module, model, call)
            cast = half.change if half is not None and half.dtype == FP16 and not half.adapted else None
            known = half is not None and cast is not None and cast.node not in seen
            reason = _asked(project, module, arguments, half) or _launched(project, module) if half and known else None
            if half is not None and reason is not None and cast is not None:
                seen.add(cast.node)
                place = module.place(call, "the model is passed to the trainer here")
                yield ScaledPart(half.name, cast, reason[0], (reason[1], place))


def _asked(project: Project, module: ModuleNames, arguments: ast.expr, half: HalfWeights) -> tuple[str, Place] | None:
    """``TrainingArguments(fp16=True)``, or a switch that is on in the run whose weights are float16."""
    made_by = creations_of(project, module, arguments)
    scope = scope_of_call(project, made_by[0].call) if len(made_by) == 1 else None
    if scope is None or scope.framework.id != "hf_trainer":
        return None
    precision = precision_of(project, scope)
    seen = {made_by[0].module, *(name.module for name in made_by[0].names)}
    if precision.partitioned or precision.is_changed_in(seen):
        return None
    place = precision.place if precision.compute is Compute.FP16 else _switched_on(project, scope, half)
    if place is None:
        return None
    return "its trainer steps it with a GradScaler (fp16)", place.saying("the trainer computes in float16")


def _switched_on(project: Project, scope: SettingScope, half: HalfWeights) -> Place | None:
    """Where ``fp16=use_fp16`` stands, if settings that are stated switch it on in a run that has these weights."""
    setting = scope.last("fp16")
    argument = scope.argument(setting) if setting is not None and setting.value is None else None
    if setting is None or argument is None:
        return None
    module, node = argument
    given = conditions_in(project, module).given(node, True)
    on = decided(project, module, given, half.decided) if given else None
    return setting.place if on is not None and not on.open else None


def _launched(project: Project, module: ModuleNames) -> tuple[str, Place] | None:
    """``accelerate launch --mixed_precision fp16``, which a trainer follows whose arguments name no precision."""
    versions = allowed(project, "transformers", module.path)
    if versions is not None and not versions.may_reach(BY_ACCELERATE):
        return None
    for run in all_runs_of(project):
        if module.path in run.modules and _is_scaled(run) and not purpose_of(run.place.path).is_left_alone:
            documents = project.python_documents_at(run.modules)
            if not any(word in item.text for item in documents for word in (*PRECISIONS, "deepspeed")):
                place = run.place.saying("accelerate trains in float16 by this line")
                return "the launch line has the trainer step it with a GradScaler (--mixed_precision fp16)", place
    return None


def _is_scaled(run: Run) -> bool:
    command = run.command
    words = command.words if command is not None else ()
    at = words.index(command.script) if command is not None and command.script in words else 0
    launcher = " ".join(words[:at]).replace("-", "_").replace("=", " ").split()
    if not {"accelerate", "accelerate_launch"} & {word.rpartition("/")[2] for word in launcher}:
        return False
    asked = [after for word, after in pairwise(launcher) if word == "__mixed_precision"]
    given = any(part in word for word in words[at + 1 :] for part in (*PRECISIONS, *ELSEWHERE))
    decided = any(part in word for word in launcher for part in (*OF_LAUNCHER, *ELSEWHERE))
    return asked == ["fp16"] and not given and not decided
