"""Evaluations outside autocast that must fail: 16-bit input for weights that are float32."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.purpose.steps import Entered, function_scope
from ....codemod.python.bindings import only_value
from ....codemod.python.names import ModuleNames, parameters_of
from ....codemod.python.visible import means_the_same
from ....codemod.source.project import Project
from ....codemod.torch.dtypes import BF16, FP16, Dtype
from ....codemod.torch.weights import cast_dtype
from .float32_models import is_certainly_float32
from .model_calls import (
    ModelCall,
    calls_inside,
    evaluations_outside,
    is_training,
    regions_of_training_files,
)

OTHER_RUNTIMES = ("deepspeed", "fsdp", "fullyshardeddataparallel", "accelerat", "apex", "lightning", "fabric")
"""Words of libraries that cast a model or wrap its ``forward`` by themselves."""


@dataclass(frozen=True, slots=True, eq=False)
class Sign:
    """An evaluation that must fail outside autocast, and why."""

    call: ModelCall
    message: str
    evidence: tuple[tuple[ast.AST, str], ...]
    region: Entered
    """The training step's."""
    header: str | None
    """The context to enter, as source text; None where it cannot be named there."""


def signs(project: Project) -> Iterator[Sign]:
    """Every evaluation, in a file that trains inside autocast, whose 16-bit input meets float32 weights."""
    for module, regions in regions_of_training_files(project).items():
        if module.mentions(*OTHER_RUNTIMES):
            continue
        training = [region for region in regions if is_training(region)]
        trained = {call.name: (call, region) for region in training for call in calls_inside(region)}
        for call in evaluations_outside(module, set(trained)):
            sign = _low_precision_input(project, call, *trained[call.name])
            if sign is not None:
                yield sign


def _low_precision_input(project: Project, call: ModelCall, trained: ModelCall, region: Entered) -> Sign | None:
    for argument in call.call.args:
        cast = _cast_of(project, call.module, argument)
        if cast is not None and is_certainly_float32(project, call.module, call.model):
            node, dtype = cast
            return Sign(
                call,
                f"{call.name} runs outside autocast on {dtype.name} input, which does not match its float32 weights",
                ((node, f"the input becomes {dtype.name}"), (trained.call, "the training step uses autocast")),
                region,
                _header(region, call),
            )
    return None


def _cast_of(project: Project, module: ModuleNames, argument: ast.expr) -> tuple[ast.expr, Dtype] | None:
    """The cast to 16 bits that made an argument, when nothing else can have made it."""
    argument = (only_value(module, argument) if isinstance(argument, ast.Name) else None) or argument
    if not isinstance(argument, ast.Call):
        return None
    dtype = cast_dtype(project, module, argument)
    return (argument, dtype) if dtype in (BF16, FP16) else None


# --- the context to enter ---------------------------------------------------------------------------------------------


def _header(region: Entered, call: ModelCall) -> str | None:
    """The region's own expression, where each of its names means the same at ``call``."""
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
