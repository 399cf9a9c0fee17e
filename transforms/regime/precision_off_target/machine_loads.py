"""Dtypes of quantized and frozen weights that shall follow the machine (``--to portable``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Edit, EditRefused
from ....codemod.purpose.training import training_modules
from ....codemod.python.names import string_of
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.machine_tests import asks_machine
from ....codemod.trainers.writing.machine_choice import question
from ....codemod.trainers.writing.moves import Move
from .loaded_weights import DtypeArgument, dtype_arguments
from .machine_dtypes import edits_at_sources, either_half, half_of
from .training_autocasts import fixed_in_model_code
from .weights_trained import looks_frozen

TARGET = "portable"


def moves(project: Project) -> Iterator[Move]:
    """What must change for weights to be kept, or computed with, in the 16-bit type that the machine has."""
    if project.target != TARGET:
        return
    trained = set(training_modules(project))
    for argument in dtype_arguments(project):
        module, node = argument.module, argument.node
        found = {half_of(value) for value in constants_of(project, module, node)}
        if len(found) == 1 and None not in found and not asks_machine(project, module, node, for_bf16=True):
            move = _move(project, argument, " or ".join(item.name for item in found if item is not None))
            mixed = module not in trained and next(fixed_in_model_code(project), None) is not None
            yield move.only_reported("model code enters regions of a fixed dtype with them") if mixed else move


def _move(project: Project, argument: DtypeArgument, name: str) -> Move:
    document = argument.module.document
    what = "quantized weights are computed with" if argument.quantized else "weights are kept"
    message = f"{what} in {name} on every machine; the target is {TARGET}"
    evidence = (argument.module.place(argument.call, f"{argument.name} is given here"),)
    span = document.span(argument.node)
    if not argument.quantized and not looks_frozen(project, argument.module, argument.call):
        message += f"; trained {name} weights are for one kind of machine: keep trainable parameters in float32"
        return Move(document.path, span, message, evidence=evidence)
    try:
        edits = _edits(project, argument)
    except EditRefused as refusal:
        return Move(document.path, span, f"{message}; not changed automatically: {refusal}", evidence=evidence)
    return Move(document.path, span, message, "bfloat16 where it is native, else float16", edits, evidence)


def _edits(project: Project, argument: DtypeArgument) -> tuple[Edit, ...]:
    module, node = argument.module, argument.node
    direct = isinstance(node, ast.Constant) or (module.qualified(node) or "").startswith("torch.")
    if not direct:
        return edits_at_sources(project, module, node)
    asked = question(project, module, [node], exact=False)
    value = string_of(node)
    text = either_half(asked, value) if value is not None else either_half(asked)
    return (module.replace(node, text), *asked.edits)
