"""Models in 16 bits that a trainer of transformers or TRL trains as a whole."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.half.half_weights import HalfWeights, half_weights
from ...codemod.half.launchers import is_held
from ...codemod.half.weight_changes import AUTO, stored_dtype
from ...codemod.purpose.decided import has_run, stated
from ...codemod.purpose.files import is_test
from ...codemod.purpose.proved_reach import is_reached
from ...codemod.purpose.training import trainer_classes
from ...codemod.python.brought_entries import brought_keywords
from ...codemod.python.creations import Creation, creations_of
from ...codemod.python.functions import class_of, method_of
from ...codemod.python.names import ModuleNames, modules_with
from ...codemod.python.scopes import is_off
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP16, HALVES, Dtype
from ...codemod.trainers.reading.declarations import scope_of_call
from ...codemod.trainers.reading.launched_loads import launched_loads
from ...codemod.trainers.reading.links import sources
from ...codemod.trainers.reading.loads import Load, may_be_quantized
from ...codemod.trainers.reading.scopes import TextOrigin
from ...codemod.trainers.reading.trained_loads import TrainedLoad, trained_loads, trainer_calls
from .half_optimizers import HalfOptimizer
from .optimizer_table import rows_of_trainer
from .stated_numbers import Stated, options_in, rate_in, stated_numbers

RATES = {
    "TrainingArguments": 5e-5,
    "Seq2SeqTrainingArguments": 5e-5,
    "SFTConfig": 2e-5,
    "RewardConfig": 1e-4,
} | dict.fromkeys(("DPOConfig", "GRPOConfig", "KTOConfig", "RLOOConfig", "ORPOConfig", "CPOConfig"), 1e-06)
"""The default learning rates of transformers 5.24.0 and trl 1.16.0."""
TABLES = ("hf_trainer", "trl")
SHARDING = ("deepspeed", "fsdp", "fsdp_config")
"""Arguments by which DeepSpeed or FSDP hold the weights."""
DECIDING = (*SHARDING, "learning_rate", "optim", "optim_args", "fp16")
SCHEDULE = "lr_scheduler_type"
OWN_OPTIMIZERS = ("create_optimizer", "create_optimizer_and_scheduler", "get_optimizer_cls_and_kwargs")
"""Methods by which a class of the project makes another optimizer than its arguments say."""
WORDS = ("bfloat16", "float16", ".half(", "bf16", "fp16", "dtype=", *AUTO)


@dataclass(frozen=True, slots=True, eq=False)
class HalfTraining:
    """A whole model in 16 bits, a trainer, and how large its steps are."""

    module: ModuleNames
    call: ast.Call
    """The trainer's arguments, or the trainer where a launch line gives them."""
    weights: HalfWeights
    rates: tuple[Stated, ...]
    optimizer: str
    given: dict[str, ast.expr]


def is_run(project: Project, item: HalfOptimizer | HalfTraining) -> bool:
    """Whether a run that the project gives makes an optimizer, or a trainer's arguments, for these weights."""
    return has_run(project, item.module, item.call, item.weights.decided) and is_reached(
        project, item.module, item.call
    )


def is_constant(item: HalfTraining) -> bool:
    """Whether the rate stays as it is; by default a trainer lowers it step by step."""
    named = item.given.get(SCHEDULE)
    return named is not None and "constant" in ast.unparse(named).lower()


def half_trainings(project: Project) -> Iterator[HalfTraining]:
    """The trainings that step 16-bit weights; none where a launcher may hold the weights."""
    seen: set[ast.AST] = set()
    if any(True for _ in project.python_documents(WORDS, ("Trainer", "TrainingArguments"))):
        for found in _all(project):
            if found.call not in seen and not is_held(project, found.module, "accelerate"):
                seen.add(found.call)
                yield found


def _all(project: Project) -> Iterator[HalfTraining]:
    for module in modules_with(project, ("Trainer(", *(f"{name}(" for name in sorted(trainer_classes(project))))):
        for call, model, arguments, adapted in () if is_test(module.path) else trainer_calls(project, module):
            if not adapted and _makes_optimizer(project, module, call):
                yield from _of_trainer(project, module, call, model, arguments)
    for run in trained_loads(project):
        weights = _of_load(project, run.load) if _is_whole(run) else None
        if weights is not None and _makes_optimizer(project, run.module, run.trainer):
            yield from _training(project, Creation(run.precision.module, run.precision.call), weights)
    for run in launched_loads(project):
        yield from _launched(project, run)


def _of_trainer(
    project: Project, module: ModuleNames, call: ast.Call, model: ast.expr, arguments: ast.expr
) -> Iterator[HalfTraining]:
    """What a call of a trainer's class trains: ``Trainer(model=model, args=TrainingArguments(...))``."""
    made_by = creations_of(project, module, arguments)
    weights = half_weights(project, module, model, call) if len(made_by) == 1 else None
    if weights is not None and not weights.adapted:
        yield from _training(project, made_by[0], weights)


def _makes_optimizer(project: Project, module: ModuleNames, trainer: ast.Call) -> bool:
    """Whether the optimizer is the one that the arguments name."""
    owner = class_of(project, module, trainer.func)
    own = owner is not None and any(method_of(project, *owner, name) is not None for name in OWN_OPTIMIZERS)
    written = any(name in module.document.text for name in (*OWN_OPTIMIZERS, "optimizers="))
    return not own and not written


def _of_load(project: Project, load: Load) -> HalfWeights | None:
    """The 16-bit weights of a model as it is loaded."""
    dtype = next(iter(load.dtypes)) if len(load.dtypes) == 1 else stored_dtype(project, load)
    if not isinstance(dtype, Dtype) or dtype not in HALVES or load.unsloth or may_be_quantized(project, load):
        return None
    return HalfWeights("the model", dtype, load.module.place(load.call, f"the weights are loaded in {dtype.name} here"))


def _is_whole(run: TrainedLoad) -> bool:
    """Whether all the weights are trained, in the dtype that they were loaded in."""
    return not (run.adapted or run.recast or run.frozen or run.by_accelerate)


def _training(project: Project, made: Creation, weights: HalfWeights) -> Iterator[HalfTraining]:
    """The training that an object of arguments asks for."""
    module, call = made.module, made.call
    scope, found = scope_of_call(project, call), brought_keywords(project, module, call)
    if scope is None or scope.framework.id not in TABLES or found is None or not found.uncertain.isdisjoint(DECIDING):
        return
    given = found.values
    held = any(name in given and not _is_left_off(project, module, given[name]) for name in SHARDING)
    if held or "optim_args" in given or any(_is_set(name, made) for name in ("learning_rate", "optim")):
        return
    scaled = given.get("fp16")
    if weights.dtype == FP16 and scaled is not None and not is_off(scaled):
        return  # the trainer's GradScaler refuses float16 gradients
    optimizer = _optimizer(project, module, given.get("optim"))
    rates = _rates(project, module, call, given.get("learning_rate"), weights)
    if optimizer is not None and rates:
        yield HalfTraining(module, call, weights, rates, optimizer, given)


def _is_left_off(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether an argument is nothing, or an option that has no value where nobody gives it one."""
    found = sources(project, module, node)
    return is_off(node) or (bool(found) and not any(item.value for item in found))


def _is_set(attribute: str, made: Creation) -> bool:
    """Whether ``args.learning_rate = ...`` is written where the object is known."""
    modules = {made.module, *(name.module for name in made.names)}
    return any(receiver is not None for item in modules for receiver, _, _ in item.attribute_stores.get(attribute, ()))


def _optimizer(project: Project, module: ModuleNames, node: ast.expr | None) -> str | None:
    """The optimizer that is asked for, where it keeps nothing of what rounding loses."""
    found = stated(sources(project, module, node)) if node is not None else ()
    named = {source.value for source in found} if node is not None else {"adamw_torch"}
    only = named.pop() if len(named) == 1 else None
    return only if isinstance(only, str) and only in _losing() else None


def _losing() -> set[str]:
    return {name for row in rows_of_trainer("hf_trainer", "optim") if row.keeps == "nothing" for name in row.names}


def _rates(
    project: Project, module: ModuleNames, call: ast.Call, node: ast.expr | None, weights: HalfWeights
) -> tuple[Stated, ...]:
    if node is not None:
        return stated_numbers(project, module, node, "the learning rate", weights.decided)
    default = RATES.get((module.qualified(call.func) or "").rpartition(".")[2])
    return (Stated(default, module.place(call, f"the learning rate is the default, {default:g}")),) if default else ()


# --- arguments from a launch line -------------------------------------------------------------------------------------


def _launched(project: Project, run: TrainedLoad) -> Iterator[HalfTraining]:
    """The training of a program whose parser reads the trainer's arguments, as one launch line asks for it."""
    origin, weights = run.precision.scope.origin, _of_load(project, run.load)
    if weights is None or not _is_whole(run) or not isinstance(origin, TextOrigin):
        return
    named, rate = options_in(origin), rate_in(origin)
    optimizer = named.get("optim")
    kept = optimizer is not None and optimizer.value not in _losing()
    kept = kept or (weights.dtype == FP16 and "fp16" in named)
    if rate is None or kept or not _makes_optimizer(project, run.module, run.trainer):
        return
    name = str(optimizer.value) if optimizer is not None else "adamw_torch"
    kind = named.get(SCHEDULE)
    given: dict[str, ast.expr] = {SCHEDULE: ast.Constant(str(kind.value))} if kind is not None else {}
    yield HalfTraining(run.module, run.trainer, weights, (rate,), name, given)
