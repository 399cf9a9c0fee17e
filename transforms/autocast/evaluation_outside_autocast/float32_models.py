"""Models whose parameters are certainly float32 and that take their input as it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.python.creations import Creation, called_name, creations_of
from ....codemod.python.functions import class_of, method_of
from ....codemod.python.names import ModuleNames, resolve
from ....codemod.source.project import Project
from ....codemod.torch.api import SAME_COMPUTATION, SAME_WEIGHTS

CASTS = ("half", "bfloat16", "double", "type", "to")
LIBRARIES = ("torch.nn.", "torchvision.models.")
ADAPTS = ("autocast", "dtype", "float", "half", "bfloat16", "to", "type", "type_as", "custom_fwd")
"""Names in a ``forward`` that may make any input fit."""
STRICT = ("Linear", "Conv1d", "Conv2d", "Conv3d", "LSTM", "GRU", "MultiheadAttention")
"""Layers that refuse an input whose dtype is not their weights'."""


def is_certainly_float32(project: Project, module: ModuleNames, model: ast.expr) -> bool:
    """Whether every value ``model`` can have is made in the project, in float32, and never cast."""
    found = creations_of(project, module, model) if isinstance(model, ast.Name) else ()
    return bool(found) and all(_is_float32(project, made) for made in found)


def _is_float32(project: Project, made: Creation) -> bool:
    if not all(called_name(call) in (*SAME_WEIGHTS, *SAME_COMPUTATION) for call in made.through):
        return False
    if any(_may_be_dtype(item) for call in (made.call, *made.through) for item in _arguments(call)):
        return False
    if any(_is_cast(name.module, name.text) for name in made.names):
        return False
    return _makes_plain_module(project, made.module, made.call)


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
                isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name for node in ast.walk(receiver)
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
