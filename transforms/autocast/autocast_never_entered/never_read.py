"""An autocast in a variable that nothing reads, beside a training step."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.imports import importers_of, reached_from
from ....codemod.purpose.proved_reach import is_reached
from ....codemod.purpose.steps import calls_beside, function_scope, may_be_autocast
from ....codemod.python.bindings import only_target
from ....codemod.python.functions import all_bases, class_of
from ....codemod.python.names import ModuleNames, last_name
from ....codemod.python.paths import function_of, position
from ....codemod.source.project import Project
from ....codemod.torch.autocast import (
    Autocast,
    autocasts_in,
    checked_autocasts,
    is_float32_island,
    runs_without_gradients,
)

OTHER_WAYS = ("torch_dtype", "default_dtype", "Accelerator", "Fabric", "eepspeed", "FSDP", "enter_context")
"""What says that a training step may compute in 16 bits in another way than by ``with``."""
CASTS = ("half", "bfloat16", "to", "type")
READ_BY_NAME = ("globals", "locals", "vars", "exec", "eval")
TRAINER = "Trainer"
"""How the classes end whose objects may choose a precision themselves."""
MAX_USED = 60
"""How many files are searched for other autocasts."""


def never_read(project: Project) -> Iterator[Draft]:
    """``context = autocast(...)`` beside a training step, where no code reads ``context``."""
    named: set[tuple[ModuleNames, str]] = set()
    for autocast in checked_autocasts(project):
        name = _only_name(autocast) if autocast.form == "value" else None
        if name is None or (autocast.module, name) in named or not _is_left_out(project, autocast, name):
            continue
        named.add((autocast.module, name))
        backward = autocast.module.calls_inside[function_scope(autocast.module, autocast.node).node, "backward"][0]
        message = f"nothing enters {name}: the training step runs without this autocast, in float32"
        place = autocast.module.place(backward, "the backward pass of what runs outside of it")
        yield Draft.at(autocast.module, autocast.node, message, (place,))


def _only_name(autocast: Autocast) -> str | None:
    """The variable that is all that gets the autocast, also as one side of a conditional expression."""
    node = autocast.module.parents[autocast.node]
    while isinstance(node, ast.IfExp):
        node = autocast.module.parents[node]
    target = only_target(node)
    return target.id if isinstance(target, ast.Name) else None


def _is_left_out(project: Project, autocast: Autocast, name: str) -> bool:
    """Whether no code can read the variable, and the training step beside it has no other way to 16 bits."""
    module, node = autocast.module, autocast.node
    if name in module.name_loads or not calls_beside(module, node, "backward"):
        return False
    if _enters_others(project, module) or not is_only_way(project, autocast):
        return False
    run_text = (call for each in READ_BY_NAME for call in module.calls_by_name.get(each, ()))
    if any(position(call) > position(node) or function_of(module, call) is not module.tree for call in run_text):
        return False
    is_global = isinstance(function_scope(module, node).node, ast.Module)
    if is_global and any(name in other.identifiers for other in importers_of(project, module)):
        return False
    return is_reached(project, module, node)


def is_only_way(project: Project, autocast: Autocast) -> bool:
    """Whether an autocast lowers something in training, and its file has no way to 16 bits but autocast."""
    module = autocast.module
    if is_float32_island(project, autocast) or runs_without_gradients(autocast):
        return False
    if any(word in module.document.text for word in OTHER_WAYS) or _has_trainer(project, module):
        return False
    return not any(_may_cast(call) for each in CASTS for call in module.calls_by_name.get(each, ()))


def _has_trainer(project: Project, module: ModuleNames) -> bool:
    """Whether a trainer is made or derived from that may be one of a library, and choose a precision itself."""
    named = [call.func for call in module.calls] + [
        base for owner in module.of_type(ast.ClassDef) for base in owner.bases
    ]
    return any(_may_be_of_library(project, module, node) for node in named if last_name(node).endswith(TRAINER))


def _may_be_of_library(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether a class is not the project's, or one of its bases is such a trainer."""
    owner = class_of(project, module, node)
    above = all_bases(project, *owner) if owner is not None else ()
    return owner is None or any(
        last_name(base).endswith(TRAINER) and class_of(project, holder, base) is None for holder, base in above
    )


def _may_cast(call: ast.Call) -> bool:
    """Whether a call speaks of a dtype, or takes nothing but itself to make 16 bits: ``model.half()``."""
    text = ast.unparse(call)
    return not (call.args or call.keywords) or any(word in text for word in ("dtype", "half", "float16"))


def _enters_others(project: Project, module: ModuleNames) -> bool:
    """Whether the file, or one that it uses, may enter autocast in another way."""
    contexts = (item.context_expr for item in module.of_type(ast.withitem))
    used = (item for each in reached_from(project, [module], MAX_USED) for item in autocasts_in(project, each))
    return any(map(may_be_autocast, contexts)) or any(
        item.form != "value" or item.module is not module for item in used
    )
