"""Which loaded model a trainer trains, and what that trainer computes in: both in one run.

Told together: a call of a trainer class that gets the model and its arguments, ``accelerator.prepare(model)`` in a file
that calls ``backward``, and ``SentenceTransformer.fit(use_amp=True)``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ...purpose.files import is_test
from ...purpose.training import trainer_classes
from ...python.brought_entries import brought_keywords
from ...python.creations import Creation, ObjectName, creations_of
from ...python.keywords import keywords_of
from ...python.names import ModuleNames, attribute_chain, is_none, names_of
from ...python.paths import function_of, position
from ...source.child_fields import within
from ...source.facts import fact
from ...source.project import Project
from ...torch.api import WEIGHT_CASTS
from ...torch.dtypes import FP16
from .declarations import calls_of, scope_of_call
from .loads import Load, initial_load, load_at, loads_in
from .precision import Compute, Precision, precision_of

WORDS = ("Trainer(", "TrainingArguments(", "SFTConfig(", "DPOConfig(", "GRPOConfig(", "prepare(", "use_amp")
OF_TRAINERS = ("hf_trainer", "trl")
"""Tables of arguments that a trainer is given as an object."""
ADAPTED = (
    *("get_peft_model", "PeftModel", "LoraModel", "inject_adapter"),  # PEFT
    *("add_adapter", "load_adapter", "add_lora"),  # transformers and diffusers
)
"""Beginnings of what puts adapters on a model."""
RECAST = ("float32", "fp32", "upcast", "prepare_model_for_kbit_training", "prepare_model_for_int8_training")
"""Parts of names that change the dtype of weights, or are one; the two of PEFT cast what is not quantized."""
COMPOUND = (ast.If, ast.While, ast.With, ast.FunctionDef, ast.ClassDef)
FROZEN = ("requires_grad", "freeze")


@dataclass(frozen=True, slots=True, eq=False)
class TrainedLoad:
    """A model that is loaded and trained in one program."""

    load: Load
    precision: Precision
    module: ModuleNames
    trainer: ast.Call
    """The call that gets the model to train it."""
    adapted: bool
    """Whether adapters are trained instead of (or beside) the loaded weights."""
    adapters: tuple[ast.Call, ...]
    """The calls that put adapters on it, where they can be seen."""
    recast: bool
    """Whether something between load and trainer may change the dtype of weights."""
    frozen: bool
    """Whether something between load and trainer freezes weights."""

    @property
    def by_accelerate(self) -> bool:
        """Whether the loop is the project's own, prepared by accelerate."""
        return isinstance(self.trainer.func, ast.Attribute) and self.trainer.func.attr == "prepare"

    @property
    def is_scaled_float16(self) -> bool:
        """Whether a trainer's GradScaler steps weights that are certainly loaded in float16 and stay so."""
        aside = self.recast or self.frozen or self.adapted or self.by_accelerate or self.precision.partitioned
        known = not aside and self.precision.compute is Compute.FP16 and self.load.dtypes == {FP16}
        return known and self.load.node is not None and not (self.load.quantized or self.load.unsloth)


@fact
def trained_loads(project: Project) -> tuple[TrainedLoad, ...]:
    """Every model whose load and whose trainer's precision can both be seen."""
    found: list[TrainedLoad] = []
    for document in project.python_documents((*WORDS, *(f"{name}(" for name in sorted(trainer_classes(project))))):
        if not is_test(document.path):
            module = names_of(project, document)
            found += _of_trainers(project, module)
            found += _of_accelerators(project, module)
            found += _of_fit(project, module)
            found += _of_script(project, module)
    return tuple(found)


def trainer_calls(project: Project, module: ModuleNames) -> Iterator[tuple[ast.Call, ast.expr, ast.expr, bool]]:
    """The calls of trainers' classes: the model and the arguments that each is given, whether it may add adapters."""
    own = trainer_classes(project)
    listed = (calls for name, calls in module.calls_by_name.items() if name.endswith("Trainer") or name in own)
    for call in (call for calls in listed for call in calls):
        found = brought_keywords(project, module, call)
        given = found.values if found is not None else keywords_of(module, call).values
        plain = [item for item in call.args if not isinstance(item, ast.Starred)]
        model = given.get("model", plain[0] if plain else None)
        arguments = given.get("args", plain[1] if len(plain) > 1 else None)
        adapted = given.get("peft_config")
        if model is not None and arguments is not None:
            unknown = found is None or "peft_config" in found.uncertain
            yield call, model, arguments, unknown or (adapted is not None and not is_none(adapted))


def _of_trainers(project: Project, module: ModuleNames) -> Iterator[TrainedLoad]:
    for call, model, arguments, lora in trainer_calls(project, module):
        made_by = creations_of(project, module, arguments)
        precision = _precision(project, made_by[0]) if len(made_by) == 1 else None
        if precision is not None:
            own = initial_load(project, made_by[0].module, made_by[0].call, model)
            runs = [_run(own, (), precision, module, call)] if own is not None else []
            for run in runs or loads_of_model(project, module, model, precision, call):
                yield replace(run, adapted=run.adapted or lora)


def _precision(project: Project, made: Creation) -> Precision | None:
    """What the object that a call made tells its trainer; None for what no trainer reads, or is changed later on."""
    scope = scope_of_call(project, made.call)
    precision = precision_of(project, scope) if scope is not None else None
    seen = {made.module, *(name.module for name in made.names)}
    return precision if precision is not None and not precision.is_changed_in(seen) else None


def loads_of_model(
    project: Project, module: ModuleNames, model: ast.expr, precision: Precision, trainer: ast.Call
) -> Iterator[TrainedLoad]:
    for made in creations_of(project, module, model):
        load = load_at(project, made.module, made.call)
        if load is not None:
            yield _run(load, (made,), precision, module, trainer)


def _run(
    load: Load, made_by: tuple[Creation, ...], precision: Precision, module: ModuleNames, trainer: ast.Call
) -> TrainedLoad:
    through = [part for made in made_by for call in made.through for part in _parts(call, load.call)]
    mentioned = (item for made in made_by for item in mentions_of(made) if not is_below(item, module, trainer))
    steps = [*through, *(item.statement for item in mentioned)]
    return TrainedLoad(
        load,
        precision,
        module,
        trainer,
        adapted=any(mentions(step, ADAPTED) for step in steps),
        adapters=tuple(call for made in made_by for call in made.through if mentions(call.func, ADAPTED)),
        recast=any(map(may_recast, steps)),
        frozen=any(mentions(step, FROZEN) for step in steps),
    )


def _parts(call: ast.Call, load: ast.Call) -> Iterator[ast.AST]:
    """A call of the model, without the load that stands in it: ``from_pretrained(..., dtype=torch.float32).cuda()``."""
    func = call.func
    if isinstance(func, ast.Attribute) and load in ast.walk(func.value):
        yield ast.Call(ast.Attribute(ast.Name("model", ast.Load()), func.attr, ast.Load()), call.args, call.keywords)
    else:
        yield call


def may_recast(node: ast.AST) -> bool:
    """Whether code may change the dtype of the weights of the model that it speaks of."""
    return mentions(node, RECAST) or any(isinstance(item, ast.Call) and _casts(item) for item in ast.walk(node))


def _casts(call: ast.Call) -> bool:
    """``model.half()``, ``model.to(dtype=...)``, ``cast_training_params(model)``."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "to":
        return any(mentions(item, ("dtype",)) for item in (*call.args, *call.keywords))
    return name in WEIGHT_CASTS or name.startswith("cast_") or "_cast_" in name


def mentions(node: ast.AST, words: tuple[str, ...]) -> bool:
    """Whether a name, attribute or argument in the code holds one of the words."""
    return any(word in name for name in names_in(node) for word in words)


def names_in(node: ast.AST) -> Iterator[str]:
    """Every name, attribute and name of an argument in a piece of code."""
    for item in within(node):
        if isinstance(item, ast.Name):
            yield item.id
        elif isinstance(item, ast.Attribute):
            yield item.attr
        elif isinstance(item, ast.keyword) and item.arg is not None:
            yield item.arg


@dataclass(frozen=True, slots=True)
class Mention:
    """A statement that speaks of the model, and what it calls it."""

    module: ModuleNames
    statement: ast.stmt
    name: str


def mentions_of(made: Creation) -> Iterator[Mention]:
    """The plain statements and loops that mention a model under any of its names."""
    born = made.module.statement_of(made.call)
    for name in made.names:
        module, chain = name.module, name.text.split(".")
        loads: Iterable[ast.expr] = (module.attribute_loads if len(chain) > 1 else module.name_loads).get(chain[-1], [])
        for load in loads:
            statement = module.statement_of(load)
            is_it = attribute_chain(load) == chain and name.container in {module.tree, *module.ancestors(load)}
            meant = _meant(module, load, name) if is_it and not _is_other(module, load, name) else ""
            if meant and not isinstance(statement, COMPOUND) and statement is not born:
                yield Mention(module, statement, meant)


def _is_other(module: ModuleNames, load: ast.expr, name: ObjectName) -> bool:
    """Whether a variable of the function has the name, where the model has it outside: a parameter of a helper."""
    bindings = module.scope_of(load).lookup(name.text.partition(".")[0])
    return isinstance(name.container, ast.Module) and not any(item.scope.node is name.container for item in bindings)


def _meant(module: ModuleNames, load: ast.expr, name: ObjectName) -> str:
    """The object or the part of it that a statement speaks of; empty where it speaks of another part."""
    user = module.parents[load]
    if not name.part or not isinstance(user, ast.Attribute):
        return name.text
    if user.attr == name.part:
        return f"{name.text}.{name.part}"
    call = module.parents[user]
    return name.text if isinstance(call, ast.Call) and call.func is user else ""


def is_below(mention: Mention, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a statement stands below ``node`` in the same function."""
    here = mention.module is module and function_of(module, mention.statement) is function_of(module, node)
    return here and position(mention.statement) > position(node)


# --- one model and one set of arguments in one place, handed to a trainer that is not seen ----------------------------


def _of_script(project: Project, module: ModuleNames) -> Iterator[TrainedLoad]:
    if any(name.endswith("Trainer") or name in trainer_classes(project) for name in module.calls_by_name):
        return
    told = [scope for scope in calls_of(project, *OF_TRAINERS) if scope.path == module.document.path]
    loads = [load for load in loads_in(project, module) if load.node is not None]
    if len(told) != 1 or len(loads) != 1:
        return
    precision = precision_of(project, told[0])
    here = module.scope_of(precision.call) is module.scope_of(loads[0].call)
    if here and not precision.is_changed_in([module]):
        made = _last_creation(project, module, loads[0])
        yield _run(loads[0], (made,), precision, module, precision.call)


def _last_creation(project: Project, module: ModuleNames, load: Load) -> Creation:
    """The load with what happens to its model in the same scope."""
    scope = module.scope_of(load.call)
    found = Creation(module, load.call)
    for bindings in scope.bindings.values():
        for binding in bindings:
            holds = isinstance(binding.node, ast.Assign) and binding.node is module.statement_of(load.call)
            seen = (ObjectName(module, scope.node, binding.name),)
            if holds and not found.names:
                found = Creation(module, load.call, (), seen)
            for made in creations_of(project, module, binding.value) if isinstance(binding.value, ast.Call) else ():
                if made.call is load.call and len(made.through) > len(found.through):
                    found = Creation(module, load.call, made.through, (*seen, *made.names))
    return found


def _of_accelerators(project: Project, module: ModuleNames) -> Iterator[TrainedLoad]:
    for call in module.calls_by_name.get("prepare", []) if "backward" in module.calls_by_name else ():
        if not isinstance(call.func, ast.Attribute) or attribute_chain(call.func) is None:
            continue
        made_by = creations_of(project, module, call.func.value)
        scope = scope_of_call(project, made_by[0].call) if len(made_by) == 1 else None
        if scope is None or scope.framework.id != "accelerate":
            continue
        precision = precision_of(project, scope)
        for argument in call.args if precision.compute is not Compute.UNKNOWN else ():
            if isinstance(argument, ast.Name | ast.Attribute):
                yield from loads_of_model(project, module, argument, precision, call)


def _of_fit(project: Project, module: ModuleNames) -> Iterator[TrainedLoad]:
    """``fit(use_amp=True)`` computes in float16 with a GradScaler."""
    for scope in calls_of(project, "sentence_transformers"):
        precision = precision_of(project, scope)
        call = precision.call
        if scope.path == module.document.path and precision.compute is Compute.FP16:
            model = call.func.value if isinstance(call.func, ast.Attribute) else None
            for run in loads_of_model(project, module, model, precision, call) if model is not None else ():
                if run.load.sentence:
                    yield run
