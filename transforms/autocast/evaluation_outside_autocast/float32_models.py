"""Models whose parameters are certainly float32 and that take their input as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.callers import callers_of
from ....codemod.python.functions import class_of, method_of
from ....codemod.python.names import Binding, ModuleNames, attribute_chain, resolve
from ....codemod.source.project import Project
from ....codemod.torch.api import SAME_WEIGHTS

CASTS = ("half", "bfloat16", "double", "type", "to")
WRAPPERS = ("DistributedDataParallel", "DDP", "DataParallel", "compile", "convert_sync_batchnorm")
"""What takes a model and gives one back that computes the same."""
LIBRARIES = ("torch.nn.", "torchvision.models.")
ADAPTS = ("autocast", "dtype", "float", "half", "bfloat16", "to", "type", "type_as", "custom_fwd")
"""Names in a ``forward`` that may make any input fit."""
STRICT = ("Linear", "Conv1d", "Conv2d", "Conv3d", "LSTM", "GRU", "MultiheadAttention")
"""Layers that refuse an input whose dtype is not their weights'."""
MAX_STEPS = 5


def is_certainly_float32(project: Project, module: ModuleNames, model: ast.expr) -> bool:
    """Whether every value ``model`` can have is made in the project, in float32, and never cast."""
    if not isinstance(model, ast.Name):
        return False
    return _all_float32(project, module, module.scope_of(model).lookup(model.id), 0)


def _all_float32(project: Project, module: ModuleNames, bindings: list[Binding], depth: int) -> bool:
    if not bindings or depth > MAX_STEPS or _is_cast(module, bindings[0].name):
        return False
    return all(_is_float32(project, module, binding, depth) for binding in bindings)


def _is_float32(project: Project, module: ModuleNames, binding: Binding, depth: int) -> bool:
    if binding.kind == "parameter":
        return _all_callers_pass_float32(project, module, binding, depth)
    value = binding.value
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in SAME_WEIGHTS:
        if any(_may_be_dtype(item) for item in _arguments(value)):
            return False
        value = value.func.value
    if isinstance(value, ast.Name) and value.id == binding.name:
        return True
    if not isinstance(value, ast.Call) or any(_may_be_dtype(item) for item in _arguments(value)):
        return False
    if (attribute_chain(value.func) or [""])[-1] in WRAPPERS and value.args:
        return isinstance(value.args[0], ast.Name) and value.args[0].id == binding.name
    return _makes_plain_module(project, module, value)


def _all_callers_pass_float32(project: Project, module: ModuleNames, binding: Binding, depth: int) -> bool:
    function = binding.scope.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return False
    callers = callers_of(project, module, function)
    passed = [(site.module, site.target.arguments(site.call).get(binding.name)) for site in callers.sites]
    return bool(passed) and all(
        isinstance(node, ast.Name) and _all_float32(project, other, other.scope_of(node).lookup(node.id), depth + 1)
        for other, node in passed
    )


def _makes_plain_module(project: Project, module: ModuleNames, made: ast.Call) -> bool:
    """Whether a call makes a module of torch or the project that does not adapt its input."""
    if _is_of_library(project, module, made):
        return all(_is_of_library(project, module, node) for node in ast.walk(made) if isinstance(node, ast.Call))
    found = class_of(project, module, made.func)
    forward = method_of(project, found[0], found[1], "forward") if found is not None else None
    if found is None or forward is None or not isinstance(found[1].node, ast.ClassDef):
        return False
    names = set(_names(found[1].node))
    return names.isdisjoint(ADAPTS) and not names.isdisjoint(STRICT)


def _is_of_library(project: Project, module: ModuleNames, made: ast.Call) -> bool:
    return (resolve(project, module, made.func) or "").startswith(LIBRARIES)


def _names(node: ast.AST) -> Iterator[str]:
    for item in ast.walk(node):
        if isinstance(item, ast.Name | ast.Attribute | ast.keyword):
            name = item.id if isinstance(item, ast.Name) else item.attr if isinstance(item, ast.Attribute) else item.arg
            yield name or ""


def _is_cast(module: ModuleNames, name: str) -> bool:
    """Whether the file casts something of this name, or its modules."""
    for cast in CASTS:
        for call in module.calls_by_name.get(cast, []):
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            if receiver is None or not any(
                isinstance(node, ast.Name) and node.id == name for node in ast.walk(receiver)
            ):
                continue
            if cast != "to" or any(_may_be_dtype(item) for item in _arguments(call)):
                return True
    return False


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(item.value for item in call.keywords)]


def _may_be_dtype(node: ast.expr) -> bool:
    text = ast.unparse(node).lower()
    return any(word in text for word in ("dtype", "float", "half", "bf16", "fp16", "precision"))
