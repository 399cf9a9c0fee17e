"""A GradScaler unscales the gradients of float16 parameters.

## What goes wrong

`ValueError: Attempting to unscale FP16 gradients.` at the first `scaler.step` or `unscale_`. Or, in the middle of a
run, right after the first validation: its pipeline was built from the live model and
`pipeline.to(dtype=torch.float16)` halved the weights that are being trained. So does a checkpoint by
`torch.save(model.half().state_dict(), path)` in the loop over epochs.

## Why

Mixed precision keeps float32 weights; autocast makes the float16 copies. Gradients have the dtype of their
parameters, and a GradScaler refuses to unscale float16 ones, because the division happens in float16 and loses what
scaling saved (torch/amp/grad_scaler.py, `allow_fp16=False`). `Module.to` changes a module in place, and a pipeline's
`to` is that of its parts.

## Fix

`keep-dtype` [unsafe]: the dtype argument of the validation pipeline's `to` is dropped, so that the live weights keep
theirs; the pipeline's speed and memory then follow them. A model that is cast to float16 before it is trained is
reported: whether remove the cast or the scaler and autocast do, is the owner's choice.

Adapters that `add_adapter` of diffusers and transformers, `inject_adapter_in_model`, or `get_peft_model` with
`autocast_adapter_dtype=False` make for a float16 model are float16 too, as are those of a model that is cast later, and
the copies of its parts that `LoraConfig(modules_to_save=[...])` asks for (peft 0.21.2).

So is a part that a model's class makes anew and casts (`self.head = nn.Linear(...).half()`), where a trainer of
transformers steps it with a GradScaler: `fp16=True`, or `accelerate launch --mixed_precision fp16` of a program whose
code names no precision, which transformers' trainer follows from 4.30 on.

A part of a model of Lightning counts where all trainers of the project are asked for `16-mixed`.

A flag of the command line that casts the model (`if args.half: model.half()`) beside a scaler that is always on counts
as well, whether or not a launch line gives it: it never works.

## Not flagged

`.half()` on anything but the object whose parameters the optimizer gets (copies, EMA, teacher, VAE, inputs);
parameters that are cast back to float32 or wrapped by an adapter afterwards; a scaler subclass of the project;
optimizers of the project, and of packages where the call speaks of other precisions or copies (`master_weights=True`);
patched `_unscale_grads_`; parts that are frozen, cast back, run without gradients, or read from elsewhere; launch
lines that name DeepSpeed, FSDP or a configuration of accelerate, or pass on words that are not seen; pipelines that
are not built from the live model, or after training.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.half.half_weights import SteppedWeights, stepped_weights, weights_of_optimizer
from ....codemod.half.launchers import is_held
from ....codemod.half.optimized_models import models_of_optimizer
from ....codemod.model import Edit, Finding, Fix, Place, Rule
from ....codemod.purpose.decided import decided, of_machine, settings_asked
from ....codemod.purpose.given import may_be_on
from ....codemod.python.arguments import owner_of
from ....codemod.python.callers import callers_of
from ....codemod.python.conditions import conditions_in
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with
from ....codemod.python.options import options_read
from ....codemod.python.paths import Guard, PathFacts, function_of, guard_facts, guards, position
from ....codemod.python.seen import raised
from ....codemod.source.facts import of_each
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.scaler_steps import ScalerStep, steps_of
from ....codemod.torch.scalers import Scaler, scalers
from ....codemod.torch.steps_by_calls import steps_by_calls
from ..engines import float16_of_accelerate
from ..given_runs import is_on
from .halved_while_training import halved_while_training
from .lightning_modules import lightning_weights
from .live_pipelines import LivePipeline, live_pipelines
from .scaled_trainers import scaled_parts

CASTS = ("half", "to")
ERROR = "'Attempting to unscale FP16 gradients'"


def check(project: Project) -> Iterator[Finding]:
    read = [*_read(project)]
    yield from read
    for place in raised(project, "Attempting to unscale FP16 gradients", read):
        message = "a GradScaler steps weights in float16; keep trainable parameters in float32"
        yield rule.found(Place(place.path, place.span, message), (place,))


def _read(project: Project) -> Iterator[Finding]:
    yield from of_each(project, _of_scaler, scalers(project))
    for half, stated in prepared_weights(project):
        yield _finding(half, "accelerate steps it with a GradScaler (mixed_precision='fp16')", stated)
    for half, stated in lightning_weights(project):
        yield _finding(half, "Lightning steps it with a GradScaler (16-mixed)", stated)
    for scaled in scaled_parts(project):
        yield rule.at(scaled.change.module, scaled.change.node, _message(scaled.name, scaled.why), scaled.places)
    for pipeline in live_pipelines(project):
        yield _halved_pipeline(pipeline)


def _of_scaler(project: Project, scaler: Scaler) -> Iterator[Finding]:
    if not _can_be_on(project, scaler) or scaler.kind != "direct" or scaler.uses_of("private"):
        return
    by_calls = steps_by_calls(project, scaler) if _is_one(project, scaler) and may_be_on(project, scaler) else ()
    for step in (*steps_of(scaler), *by_calls):
        for call in step.of("step")[:1]:
            optimizer, known = step.optimizer(call), _known(step, call)
            ways = [known, *(known | {fact} for fact in _offered(project, step) if _is_free(fact, known))]
            found = (
                stepped_weights(project, step.module, optimizer, FP16, way, of_any=True) for way in ways if optimizer
            )
            half = next((item for item in found if item is not None), None)
            if half is not None and _is_on_beside(project, scaler, half):
                yield _cast_model(scaler, step.module, call, half)
    if is_on(project, scaler):
        yield from (rule.found(*draft) for draft in halved_while_training(project, scaler))


def _offered(project: Project, step: ScalerStep) -> Iterator[tuple[str, bool]]:
    """The flags of the command line each of which alone casts something to float16 where a scaler is always on."""
    for name in CASTS if _is_always_on(project, step.scaler) else ():
        for call in step.module.calls_inside.get((step.function, name), []):
            tests = [guard for guard in guards(step.module, call) if guard.leaving is None]
            flag = tests[0].test if len(tests) == 1 and tests[0].holds else None
            found = options_read(project, step.module, flag) if isinstance(flag, ast.Attribute) else ()
            if found and all(item.kind == "option" and item.switch is False for item in found):
                yield from tests[0].facts


def _is_free(fact: tuple[str, bool], known: PathFacts) -> bool:
    return fact not in known and (fact[0], not fact[1]) not in known


def _is_one(project: Project, scaler: Scaler) -> bool:
    """Whether the function that makes it is called once: of several objects that hold one, some may be off."""
    function = scaler.module.scope_of(scaler.call).function.node
    return not isinstance(function, FunctionNode) or len(callers_of(project, scaler.module, function).sites) == 1


def _can_be_on(project: Project, scaler: Scaler) -> bool:
    """Whether the scaler is always on, or on a GPU, or in a run that is given, or one flag switches it."""
    flag = isinstance(scaler.enabled_node, ast.Name | ast.Attribute)
    switched = flag or _is_always_on(project, scaler) or _is_stated(project, scaler)
    return scaler.arguments is not None and switched


def _is_always_on(project: Project, scaler: Scaler) -> bool:
    node = scaler.enabled_node
    is_true = isinstance(node, ast.Constant) and node.value is True
    return node is None or is_true or _is_of_machine(project, scaler)


def _is_stated(project: Project, scaler: Scaler) -> bool:
    """Whether launch lines, files and defaults decide all that switches it, and switch it on."""
    node, module = scaler.enabled_node, scaler.module
    given = conditions_in(project, module).given(node, True) if node is not None else ()
    found = [decided(project, module, [item]) for item in given]
    return bool(found) and all(item is not None and not item.open for item in found)


def _is_of_machine(project: Project, scaler: Scaler) -> bool:
    """Whether the machine switches it, and a GPU switches it on: ``enabled=device.type == "cuda"``."""
    node, module = scaler.enabled_node, scaler.module
    given = conditions_in(project, module).given(node, True) if node is not None else ()
    asked = [each for item in given for each in settings_asked(project, module, item)]
    return bool(asked) and all(of_machine(project, module, each) for each in asked)


def _flag(project: Project, scaler: Scaler) -> PathFacts:
    """The same, where it is not the machine that gives the flag."""
    return frozenset() if _is_of_machine(project, scaler) else _enabled(scaler)


def _is_on_beside(project: Project, scaler: Scaler, half: SteppedWeights) -> bool:
    """Whether the scaler is on where its model is cast: by the flag that casts it, or in a run that is given."""
    flag = _flag(project, scaler)
    return flag <= guard_facts(half.change.module, half.change.node) or _is_stated(project, scaler)


def _enabled(scaler: Scaler) -> PathFacts:
    """The flag that switches a scaler, as a fact; a flag that only it reads may never be given."""
    node = scaler.enabled_node
    return frozenset(Guard(node, True).facts) if isinstance(node, ast.Name | ast.Attribute) else frozenset()


def _known(step: ScalerStep, call: ast.Call) -> PathFacts:
    """What holds where a scaler that is on steps an optimizer."""
    scaler = step.scaler
    return guard_facts(step.module, call) | guard_facts(scaler.module, scaler.call) | _enabled(scaler)


def _cast_model(scaler: Scaler, module: ModuleNames, step: ast.Call, half: SteppedWeights) -> Finding:
    tests = [text for text, holds in sorted(guard_facts(half.change.module, half.change.node)) if holds]
    return _finding(
        half,
        f"a GradScaler steps its optimizer{_where(tests)}",
        module.place(step, "the scaler steps the optimizer here"),
        scaler.module.place(scaler.call, "the scaler is created here"),
    )


def _where(tests: list[str]) -> str:
    return f" where {' and '.join(tests)} is true" if tests else ""


def _finding(half: SteppedWeights, why: str, *more: Place) -> Finding:
    evidence = [half.module.place(half.optimizer, "the optimizer gets its parameters here"), *more]
    return rule.at(
        half.change.module, half.change.node, _message(half.weights.name, why, half.weights.adapted), evidence
    )


def _message(name: str, why: str, adapted: bool = False) -> str:
    what = f"the adapters of {name} are" if adapted else f"{name} is"
    return f"{what} float16 and {why}: the first step raises {ERROR}; keep trainable parameters in float32"


def _halved_pipeline(pipeline: LivePipeline) -> Finding:
    fix = Fix.unsafe(
        "keep-dtype",
        "move the pipeline without changing its dtype: the weights being trained keep theirs",
        _without_dtype(pipeline),
    )
    return rule.at(
        pipeline.module,
        pipeline.cast,
        f"the pipeline holds the live {pipeline.part}, and this call casts it to float16 in the middle of training: "
        f"the next step raises {ERROR}",
        (pipeline.module.place(pipeline.made, "the pipeline is built from the live model here"),),
        [] if pipeline.is_cast_besides else [fix],
    )


def _without_dtype(pipeline: LivePipeline) -> Edit:
    """The call without its dtype; a call with nothing else in it goes."""
    module, cast = pipeline.module, pipeline.cast
    if len(cast.args) + len(cast.keywords) > 1:
        return module.remove_argument(cast, pipeline.argument)
    if isinstance(module.parents[cast], ast.Expr):
        return module.remove(module.statement_of(cast))
    receiver = cast.func.value if isinstance(cast.func, ast.Attribute) else cast.func
    return module.replace(cast, receiver)


# --- weights that accelerate prepares ---------------------------------------------------------------------------------


def prepared_weights(project: Project) -> Iterator[tuple[SteppedWeights, Place]]:
    """Float16 models that an Accelerator in float16 prepares together with their optimizer, and what says float16."""
    for module in modules_with(project, ("prepare(",), ("Accelerator(",), (".half(", "float16")):
        for call in module.calls_by_name.get("prepare", []):
            for half in _prepared(project, module, call) if not is_held(project, module) else ():
                stated = float16_of_accelerate(project, module, call)
                if stated is not None:
                    yield half, stated


def _prepared(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[SteppedWeights]:
    given = {ast.unparse(argument) for argument in call.args}
    for argument in call.args:
        made = _value_before(module, argument, call)
        models = models_of_optimizer(module, made) if made is not None else []
        if made is not None and any(model is not None and ast.unparse(model) in given for model in models):
            half = weights_of_optimizer(project, module, made, FP16, until=_first_step(module, call), adapters=True)
            if half is not None:
                yield half


def _first_step(module: ModuleNames, prepare: ast.Call) -> ast.Call:
    """Up to where casts count: the first backward pass below ``prepare``, which keeps the parameters as they are."""
    steps = module.calls_inside.get((function_of(module, prepare), "backward"), [])
    same = (call for call in steps if owner_of(call) == owner_of(prepare) and position(call) > position(prepare))
    return min(same, key=position, default=prepare)


def _value_before(module: ModuleNames, node: ast.expr, before: ast.Call) -> ast.Call | None:
    """The only value that a variable is given above ``before`` (``prepare`` rebinds it)."""
    if not isinstance(node, ast.Name):
        return None
    bindings = [item for item in module.scope_of(node).lookup(node.id) if position(item.node) < position(before)]
    bindings = [item for item in bindings if before not in set(ast.walk(item.node))]
    value = bindings[0].value if len(bindings) == 1 else None
    return value if isinstance(value, ast.Call) else None


rule = Rule.of("PF107", check, anywhere=True)
