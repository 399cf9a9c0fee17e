"""Casts of tensors beside an autocast region, to the 16-bit dtype that the region is to leave: `images.half()`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.purpose.targets import compute_dtype
from ....codemod.python.names import ModuleNames
from ....codemod.python.paths import calls_of, function_of, guards, name_parts
from ....codemod.source.project import Project
from ....codemod.torch.api import LOAD_KEYS, WEIGHT_CASTS
from ....codemod.torch.dtypes import HALVES, TORCH_DTYPES, Dtype
from ....codemod.trainers.reading.stated_casts import is_model
from ....codemod.trainers.reading.stated_words import speaks
from ....codemod.trainers.writing.moves import Move
from .spelling import replaced, respelled_cast
from .training_autocasts import TrainingRegion, training_regions

OTHERS = "what else reads the tensor is not known"


def moves(project: Project) -> Iterator[Move]:
    """The casts in the functions of the regions that leave a 16-bit dtype, each once."""
    wanted = compute_dtype(project.target)
    seen: set[ast.AST] = set()
    for region in training_regions(project) if wanted in HALVES else ():
        function = function_of(region.module, region.autocast.node)
        if wanted is not None and region.dtype in HALVES and region.dtype != wanted and function not in seen:
            seen.add(function)
            for call in calls_of(region.module, function):
                yield from _move(project, region, call, wanted)


def _move(project: Project, region: TrainingRegion, call: ast.Call, wanted: Dtype) -> Iterator[Move]:
    module = region.module
    dtype = _spelled(module, call, region.dtype)
    if dtype is None or not _is_tensor(module, call) or _is_chosen(module, call):
        return
    edits = (respelled_cast(module, call, wanted),) if dtype is call else replaced(module, dtype, wanted)
    old = region.dtype.name if region.dtype is not None else ""
    message = f"{ast.unparse(call)} is {old}, as the region beside it was; the target is {project.target}"
    place = module.place(region.autocast.node, "this region moves with it")
    effect = f"cast to {wanted.name}, as the region beside it"
    yield Move(module.path, module.document.span(dtype), message, effect, edits, (place,), OTHERS)


def _spelled(module: ModuleNames, call: ast.Call, dtype: Dtype | None) -> ast.expr | None:
    """The expression that says ``dtype``: ``torch.float16`` of ``x.to(torch.float16)``, all of ``x.half()``."""
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr not in ("to", "type"):
        plain = not call.args and not call.keywords
        return call if plain and WEIGHT_CASTS.get(call.func.attr) == dtype else None
    given = [*call.args, *(item.value for item in call.keywords if item.arg in LOAD_KEYS)]
    return next((node for node in given if TORCH_DTYPES.get(module.qualified(node) or "") == dtype), None)


def _is_tensor(module: ModuleNames, call: ast.Call) -> bool:
    """Whether what is cast is no model: methods of a value, or what torch makes; a copy of a model is neither."""
    assert isinstance(call.func, ast.Attribute)
    node: ast.expr = call.func.value
    if is_model(node):
        return False
    while isinstance(node, ast.Call):
        if (module.qualified(node.func) or "").startswith("torch."):
            return True
        if not isinstance(node.func, ast.Attribute):
            return False
        node = node.func.value
    return isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and not is_model(node)


def _is_chosen(module: ModuleNames, call: ast.Call) -> bool:
    """Whether a test of a precision leads to the cast."""
    return any(any(map(speaks, name_parts(guard.test))) for guard in guards(module, call))
