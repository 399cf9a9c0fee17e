"""What shows that an evaluation outside autocast is a mistake: it must fail, or the project itself wants otherwise."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.purpose.steps import Entered, function_scope, is_in_context
from ....codemod.python.bindings import only_value
from ....codemod.python.callers import callers_of
from ....codemod.python.names import FunctionNode, ModuleNames, names_of, parameters_of
from ....codemod.python.paths import exclusive, guards, name_parts, position
from ....codemod.python.visible import means_the_same
from ....codemod.source.project import Project
from ....codemod.torch.autocast import is_without_gradients
from ....codemod.torch.dtypes import BF16, FP16, Dtype
from ....codemod.torch.weights import cast_dtype
from .float32_models import is_certainly_float32
from .model_calls import (
    ModelCall,
    calls_inside,
    evaluations_outside,
    is_training,
    model_of,
    regions_of_training_files,
)

OTHER_RUNTIMES = ("deepspeed", "fsdp", "fullyshardeddataparallel", "accelerat", "apex", "lightning", "fabric")
"""Words of libraries that cast a model or wrap its ``forward`` by themselves."""
PRECISION_WORDS = {
    "amp",
    "autocast",
    "bf16",
    "deepspeed",
    "ds",
    "dtype",
    "fp16",
    "half",
    "mixed",
    "precision",
    "scaler",
}
"""Parts of a test that may choose between evaluating with and without autocast."""
WORDS = ("autocast",)


@dataclass(frozen=True, slots=True, eq=False)
class Sign:
    """An evaluation that should run inside autocast, and why."""

    call: ModelCall
    message: str
    evidence: tuple[tuple[ast.AST, str], ...]
    region: Entered | None
    header: str | None
    """The context to enter, as source text; None where it cannot be named there."""
    is_certain: bool = False
    """Whether the call certainly fails as it is."""


def signs(project: Project) -> Iterator[Sign]:
    """At most one sign for each evaluation."""
    seen: set[ast.Call] = set()
    for sign in (*_in_training_files(project), *_unused_contexts(project)):
        if sign.call.call not in seen:
            seen.add(sign.call.call)
            yield sign


def _in_training_files(project: Project) -> Iterator[Sign]:
    for module, regions in regions_of_training_files(project).items():
        if module.mentions(*OTHER_RUNTIMES):
            continue
        inside = [call for region in regions for call in calls_inside(region)]
        trained = {call.name: call for call in inside if call.region is not None and is_training(call.region)}
        for call in evaluations_outside(module, set(trained)):
            sign = (
                _low_precision_input(project, call, trained[call.name])
                or _other_evaluation(call, inside)
                or _same_loss(call, inside)
            )
            if sign is not None:
                yield sign


# --- a certain failure ------------------------------------------------------------------------------------------------


def _low_precision_input(project: Project, call: ModelCall, trained: ModelCall) -> Sign | None:
    for argument in call.call.args:
        cast = _cast_of(project, call.module, argument)
        if cast is not None and is_certainly_float32(project, call.module, call.model):
            node, dtype = cast
            return Sign(
                call,
                f"{call.name} runs outside autocast on {dtype.name} input, which does not match its float32 weights",
                ((node, f"the input becomes {dtype.name}"), (trained.call, "the training step uses autocast")),
                trained.region,
                _header(trained.region, call),
                is_certain=True,
            )
    return None


def _cast_of(project: Project, module: ModuleNames, argument: ast.expr) -> tuple[ast.expr, Dtype] | None:
    """The cast to 16 bits that made an argument, when nothing else can have made it."""
    argument = (only_value(module, argument) if isinstance(argument, ast.Name) else None) or argument
    if not isinstance(argument, ast.Call):
        return None
    dtype = cast_dtype(project, module, argument)
    return (argument, dtype) if dtype in (BF16, FP16) else None


# --- what the project does elsewhere ----------------------------------------------------------------------------------


def _other_evaluation(call: ModelCall, inside: list[ModelCall]) -> Sign | None:
    """Another evaluation of the model uses autocast: in the same function, or in one with the same switch."""
    for other in sorted(inside, key=lambda item: item.function is not call.function):
        if other.name != call.name or other.region is None or not is_without_gradients(other.module, other.call):
            continue
        if other.function is call.function:
            fits = not isinstance(call.function.node, ast.Module) and not exclusive(call.module, call.call, other.call)
        else:
            fits = (
                _is_function_of_file(call) and _is_function_of_file(other) and _header(other.region, call) is not None
            )
        if fits and not _is_cast_branch(call) and _mode(other) == _mode(call):
            return Sign(
                call,
                f"{call.name} is evaluated inside autocast elsewhere and outside here: the results differ",
                ((other.region.context, "this evaluation uses autocast"),),
                other.region,
                _header(other.region, call),
            )
    return None


def _mode(call: ModelCall) -> str:
    """``train`` or ``eval``: what was called last on the model above the call, in its function; "" where nothing was.

    Features that are collected without gradients while the model is in training mode are no evaluation.
    """
    calls = [node for method in ("train", "eval") for node in call.module.calls_by_name.get(method, [])]
    before = [
        node
        for node in calls
        if isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func.value) == call.name
        and function_scope(call.module, node) is call.function
        and position(node) < position(call.call)
    ]
    last = max(before, key=position, default=None)
    return last.func.attr if last is not None and isinstance(last.func, ast.Attribute) else ""


def _is_function_of_file(call: ModelCall) -> bool:
    """Whether the call stands in a function at module level (nested ones are made to choose from)."""
    function = call.function
    return isinstance(function.node, ast.FunctionDef) and function.parent is not None and function.parent.parent is None


def _is_cast_branch(call: ModelCall) -> bool:
    """Whether a test around the call, or an earlier exit, speaks of the precision."""
    return any(name_parts(guard.test) & PRECISION_WORDS for guard in guards(call.module, call.call))


def _same_loss(call: ModelCall, inside: list[ModelCall]) -> Sign | None:
    """``loss_fn(net=model, ...)`` in one function: the training loss inside autocast, the validation loss outside."""
    if "loss" not in call.name.lower() and "criterion" not in call.name.lower():
        return None
    if not any(_is_model_argument(call.module, item) for item in _arguments(call.call)) or _is_cast_branch(call):
        return None
    for other in inside:
        together = other.name == call.name and other.function is call.function
        if together and other.region is not None and is_training(other.region):
            return Sign(
                call,
                f"{call.name} runs the model outside autocast here and inside it for training: the losses differ",
                ((other.region.context, "the training step uses autocast"),),
                other.region,
                _header(other.region, call),
            )
    return None


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords)]


def _is_model_argument(module: ModuleNames, node: ast.expr) -> bool:
    """Whether an argument is a model: its ``train``, ``eval`` or ``parameters`` is called somewhere in the file."""
    if not isinstance(node, ast.Name):
        return False
    for method in ("train", "eval", "parameters"):
        for call in module.calls_by_name.get(method, []):
            if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == node.id:
                return True
    return False


# --- a context that nobody enters -------------------------------------------------------------------------------------


def _unused_contexts(project: Project) -> Iterator[Sign]:
    """``def validate(model, loader, amp_autocast)`` that runs the model and never uses the context it is given."""
    for document in project.checked_documents(WORDS):
        module = names_of(project, document)
        for function in module.scopes:
            if isinstance(function, ast.FunctionDef):
                yield from _unused_in(project, module, function)


def _unused_in(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[Sign]:
    contexts = [item for item in parameters_of(function) if "autocast" in item.arg and "dtype" not in item.arg]
    for parameter in contexts:
        header = _entered_as(module, parameter.arg)
        if header is None or _is_read(module, function, parameter.arg):
            continue
        for call in _runs(module, function) if _is_given(project, module, function, parameter.arg) else ():
            message = f"{function.name} receives {parameter.arg} but never enters it: {call.name} runs without autocast"
            yield Sign(call, message, ((parameter, "the context is passed in here"),), None, header)


def _entered_as(module: ModuleNames, name: str) -> str | None:
    """How another function of the file enters what has this name: ``name`` or ``name()``; None where none does."""
    for load in module.name_loads.get(name, []):
        parent = module.parents[load]
        if isinstance(parent, ast.withitem):
            return name
        called = isinstance(parent, ast.Call) and parent.func is load and not parent.args and not parent.keywords
        if called and isinstance(module.parents[parent], ast.withitem):
            return f"{name}()"
    return None


def _is_read(module: ModuleNames, function: FunctionNode, name: str) -> bool:
    return any(function in module.ancestors(load) for load in module.name_loads.get(name, []))


def _is_given(project: Project, module: ModuleNames, function: FunctionNode, name: str) -> bool:
    """Whether a caller passes something that it calls autocast as well."""
    for site in callers_of(project, module, function).sites:
        passed = site.target.arguments(site.call).get(name)
        if passed is not None and "autocast" in ast.unparse(passed):
            return True
    return False


def _runs(module: ModuleNames, function: FunctionNode) -> Iterator[ModelCall]:
    own = {item.arg for item in parameters_of(function)}
    for call in sorted((node for node in ast.walk(function) if isinstance(node, ast.Call)), key=position):
        model = model_of(module, call)
        named = isinstance(model, ast.Name) and model.id in own and ("model" in model.id or "net" in model.id)
        own_call = named and function_scope(module, call).node is function
        if model is not None and own_call and not is_in_context(module, call):
            yield ModelCall(module, call, model)


# --- the context to enter ---------------------------------------------------------------------------------------------


def _header(region: Entered | None, call: ModelCall) -> str | None:
    """The region's own expression, where each of its names means the same at ``call``."""
    if region is None:
        return None
    module = call.module
    text = module.source(region.context)
    if "\n" in text or "\r" in text:
        text = ast.unparse(region.context)
    if means_the_same(module, region.context, call.call) or _are_parameters_of_both(region, call):
        return text
    return None


def _are_parameters_of_both(region: Entered, call: ModelCall) -> bool:
    """Whether what differs are parameters that both functions have under one name (``args``)."""
    mine, theirs = call.function.node, function_scope(call.module, region.block).node
    if not isinstance(mine, ast.FunctionDef) or not isinstance(theirs, ast.FunctionDef):
        return False
    shared = {item.arg for item in parameters_of(mine)} & {item.arg for item in parameters_of(theirs)}
    for node in ast.walk(region.context):
        if isinstance(node, ast.Name) and not means_the_same(call.module, node, call.call):
            bindings = function_scope(call.module, region.block).lookup(node.id)
            if node.id not in shared or len(bindings) != 1:
                return False
    return True
