"""Pipelines that are built from a model in training, and cast to float16 in the middle of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....codemod.python.arguments import receiver_of
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with
from ....codemod.python.paths import exclusive, function_of, loops
from ....codemod.source.project import Project
from ....codemod.torch.dtype_values import constants_of
from ....codemod.torch.dtypes import FP16
from ....codemod.torch.trained_modules import is_trained


@dataclass(frozen=True, slots=True, eq=False)
class LivePipeline:
    """``pipeline.to(..., float16)`` on a pipeline that was built from a model in training."""

    module: ModuleNames
    made: ast.Call
    cast: ast.Call
    argument: str | int
    part: str
    is_cast_besides: bool
    """Whether another call of the function gives the model a dtype as well."""


def live_pipelines(project: Project) -> Iterator[LivePipeline]:
    """Casts to float16 of pipelines that hold a model in training, inside the training loop or called from it."""
    for module in modules_with(project, ("float16", ".half("), ("unwrap",), ("ipeline",), ("backward",)):
        for call in module.calls_by_name.get("to", ()):
            pipeline = receiver_of(call)
            named = isinstance(pipeline, ast.Name) and "pipe" in pipeline.id.lower()
            if named and isinstance(pipeline, ast.Name) and _is_in_training(module, call):
                yield from _cast_pipeline(project, module, call, pipeline)


def _cast_pipeline(project: Project, module: ModuleNames, call: ast.Call, receiver: ast.Name) -> Iterator[LivePipeline]:
    argument = _half_argument(project, module, call)
    if argument is None:
        return
    bindings = module.bindings_of(receiver)
    for binding in bindings:
        made = binding.value
        if not isinstance(made, ast.Call) or "ipeline" not in ast.unparse(made.func) or exclusive(module, made, call):
            continue
        live = [item for item in made.keywords if item.arg and _is_live(item.value)]
        names = ((item, each) for item in live for each in ast.walk(item.value) if isinstance(each, ast.Name))
        trained = [item for item, each in names if is_trained(module, each)]
        if trained:
            besides = _is_cast_besides(module, call, trained)
            yield LivePipeline(module, made, call, argument, trained[0].arg or "", besides)
            return


def _half_argument(project: Project, module: ModuleNames, call: ast.Call) -> str | int | None:
    for index, node in enumerate(call.args):
        if not isinstance(node, ast.Starred) and FP16 in constants_of(project, module, node):
            return index
    for item in call.keywords:
        if item.arg == "dtype" and FP16 in constants_of(project, module, item.value):
            return "dtype"
    return None


def _is_live(node: ast.expr) -> bool:
    """``accelerator.unwrap_model(unet)``, ``unwrap_model(unet)``."""
    return isinstance(node, ast.Call) and "unwrap" in ast.unparse(node.func)


def _is_cast_besides(module: ModuleNames, cast: ast.Call, live: Sequence[ast.keyword]) -> bool:
    """``unwrap(unet).to(dtype)`` in the function of ``cast``: without the pipeline's cast the model is cast still."""
    names = {item.id for keyword in live for item in ast.walk(keyword.value) if isinstance(item, ast.Name)}
    calls = [call for name in ("to", "half") for call in module.calls_by_name.get(name, []) if call is not cast]
    here = [call for call in calls if function_of(module, call) is function_of(module, cast)]
    return any(
        isinstance(item, ast.Name) and item.id in names
        for call in here
        if (owner := receiver_of(call)) is not None
        for item in ast.walk(owner)
    )


def _is_in_training(module: ModuleNames, call: ast.Call) -> bool:
    function = function_of(module, call)
    if any(_holds_backward(loop) for loop in loops(module, call)):
        return True
    name = getattr(function, "name", None)
    return name is not None and any(
        attribute_chain(other.func) in ([name], ["self", name])
        and any(_holds_backward(loop) for loop in loops(module, other))
        for other in module.calls
    )


def _holds_backward(loop: ast.AST) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr == "backward" for node in ast.walk(loop))
