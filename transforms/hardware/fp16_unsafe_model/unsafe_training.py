"""Python that trains or halves a checkpoint of a family that overflows in float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.model import Draft
from ....codemod.purpose.checked import checked_code
from ....codemod.python.names import ModuleNames, attribute_chain
from ....codemod.python.paths import function_of
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from ....codemod.torch.api import LOADERS
from ....codemod.torch.autocast import autocasts_in, dtype_scenarios, is_float32_island, runs_without_gradients
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.weights import cast_dtype
from ....codemod.trainers.reading.declarations import calls_of
from ....codemod.trainers.reading.precision import Compute, precision_of
from ....codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads
from .fp16_danger import goes_to, moved, other_precision
from .unsafe_families import Family, breaks_when_halved, family_of, loads_model

WORDS = ("t5-", "ul2", "science/t0", "pegasus-", "gemma-3")
HALF_WORDS = ("float16", "fp16", "half()", "autocast", "16")


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A load of one known checkpoint."""

    module: ModuleNames
    call: ast.Call
    model: str
    family: Family


def unsafe_training(project: Project) -> Iterator[Draft]:
    """Trainers, autocast loops and plain casts; each load is reported once."""
    seen: set[ast.Call] = set()
    for run in trained_loads(project) if _names_any(project) else ():
        checkpoint = checkpoint_at(project, run.load.module, run.load.call)
        plain = run.precision.compute is Compute.FP16 and not run.load.quantized and not run.load.unsloth
        if checkpoint is not None and plain and checkpoint.call not in seen:
            seen.add(checkpoint.call)
            yield _of_run(project, run, checkpoint)
    for module in checked_code(project, WORDS, ("from_pretrained",), where=_may_load):
        for danger, call in _in_module(project, module):
            if call not in seen:
                seen.add(call)
                yield danger


def checkpoint_at(project: Project, module: ModuleNames, call: ast.Call) -> Checkpoint | None:
    """The checkpoint of an endangered family that ``call`` certainly loads."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in LOADERS:
        return None
    owner = (attribute_chain(call.func.value) or [""])[-1]
    named = [item.value for item in call.keywords if item.arg == "pretrained_model_name_or_path"]
    node = call.args[0] if call.args else named[0] if named else None
    if node is None or isinstance(node, ast.Starred) or not loads_model(owner):
        return None
    found = constants_of(project, module, node)
    model = found.pop() if len(found) == 1 else None
    family = family_of(model) if isinstance(model, str) else None
    return Checkpoint(module, call, model, family) if isinstance(model, str) and family is not None else None


@fact
def _names_any(project: Project) -> bool:
    return bool(project.python_paths(WORDS, ("from_pretrained",)))


def _may_load(text: str) -> bool:
    lowered = text.lower()
    return any(word in lowered for word in HALF_WORDS) and any(word in lowered for word in WORDS)


# --- trainers that are told fp16 --------------------------------------------------------------------------------------


def _of_run(project: Project, run: TrainedLoad, checkpoint: Checkpoint) -> Draft:
    precision = run.precision
    node = precision.node or precision.call
    evidence = [checkpoint.module.place(checkpoint.call, f"{checkpoint.model} is loaded")]
    if run.trainer is not precision.call:
        evidence.append(run.module.place(run.trainer, "and trained"))
    fix = moved(project, precision.scope)
    return Draft.at(precision.module, node, message(checkpoint), tuple(evidence), [fix])


def message(checkpoint: Checkpoint) -> str:
    """What goes wrong with the checkpoint in float16 mixed precision."""
    return (
        f"{checkpoint.model} overflows in float16: its activations exceed 65504 ({checkpoint.family.name}), the loss "
        "becomes nan or every step is skipped"
    )


# --- loops of the project's own, Lightning, and .half() ---------------------------------------------------------------


def _in_module(project: Project, module: ModuleNames) -> Iterator[tuple[Draft, ast.Call]]:
    loads = [call for name in LOADERS for call in module.calls_by_name.get(name, [])]
    found = [item for call in loads if (item := checkpoint_at(project, module, call)) is not None]
    for checkpoint in found:
        halved = _halved(project, checkpoint)
        told = _lightning(project, module) or _own_loop(project, module) if len(found) == 1 else None
        if halved is not None and breaks_when_halved(checkpoint.model):
            yield _of_cast(project, checkpoint, halved), checkpoint.call
        elif told is not None:
            node, said = told
            evidence = (module.place(checkpoint.call, f"{checkpoint.model} is loaded"), module.place(node, said))
            yield Draft.at(module, node, message(checkpoint), evidence), checkpoint.call


def _halved(project: Project, checkpoint: Checkpoint) -> ast.Call | None:
    """``from_pretrained(...).half()``, or ``model.half()`` of the one variable that holds it."""
    module, call = checkpoint.module, checkpoint.call
    statement = module.statement_of(call)
    for outer in module.ancestors(call):
        if isinstance(outer, ast.Call) and _is_fp16_cast(project, module, outer):
            return outer
        if outer is statement:
            break
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    name = ast.unparse(statement.targets[0])
    for cast in [*module.calls_by_name.get("half", []), *module.calls_by_name.get("to", [])]:
        same = isinstance(cast.func, ast.Attribute) and ast.unparse(cast.func.value) == name
        if same and function_of(module, cast) is function_of(module, call) and _is_fp16_cast(project, module, cast):
            return cast
    return None


def _is_fp16_cast(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and cast_dtype(project, module, call) == FP16


def _of_cast(project: Project, checkpoint: Checkpoint, cast: ast.Call) -> Draft:
    module, document = checkpoint.module, checkpoint.module.document
    goal, fix = goes_to(project), None
    if goal is not None and isinstance(cast.func, ast.Attribute) and cast.func.attr == "half":
        method = "bfloat16" if goal == "bf16" else "float"
        parts = (document.span(cast.func.value), f".{method}()")
        fix = other_precision(goal, (checkpoint.module.replace(cast, *parts),))
    return Draft.at(
        checkpoint.module,
        cast,
        f"{checkpoint.model} overflows in float16: the cast takes even the layers that loading keeps in float32",
        (module.place(checkpoint.call, f"{checkpoint.model} is loaded"),),
        [fix],
    )


def _lightning(project: Project, module: ModuleNames) -> tuple[ast.expr, str] | None:
    for scope in calls_of(project, "lightning"):
        precision = precision_of(project, scope) if scope.path == module.document.path else None
        if precision is not None and precision.node is not None and precision.regimes == {"fp16-mixed"}:
            return precision.node, "Lightning computes in float16"
    return None


def _own_loop(project: Project, module: ModuleNames) -> tuple[ast.expr, str] | None:
    """An autocast region that is certainly float16 in a function that runs ``backward``."""
    for item in autocasts_in(project, module):
        if item.form != "with" or is_float32_island(project, item) or runs_without_gradients(item):
            continue
        home = function_of(module, item.node)
        trains = any(function_of(module, call) is home for call in module.calls_by_name.get("backward", []))
        switched = item.enabled_node is not None and not isinstance(item.enabled_node, ast.Constant)
        if trains and not switched and {one.value for one in dtype_scenarios(project, item)} == {FP16}:
            return item.node, "autocast computes in float16"
    return None
