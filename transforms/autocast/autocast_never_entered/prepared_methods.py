"""Methods of a prepared model that run its layers: accelerate puts its autocast around ``forward`` alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.checked import checked_code
from ....codemod.python.arguments import receiver_of
from ....codemod.python.bindings import only_value, self_stores
from ....codemod.python.callers import callers_of
from ....codemod.python.creations import Creation, creations_of
from ....codemod.python.functions import FunctionTarget, all_bases, class_of, method_of
from ....codemod.python.names import ModuleNames, attribute_chain, last_name, resolve
from ....codemod.python.paths import calls_of, function_of
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.torch.api import ACCELERATOR
from ....codemod.torch.autocast import is_without_gradients

WRAPPED = ("forward", "__call__")
HALVES = ("fp16", "bf16")
SHARDING = ("deepspeed", "DEEPSPEED", "fsdp", "FSDP")
"""What says that DeepSpeed or FSDP, which hold 16-bit weights of their own, may run it."""


def methods_outside_autocast(project: Project) -> Iterator[Draft]:
    """``model.extract_features(x)`` in the training step of a model that the Accelerator prepared."""
    if any(True for kind in (FileKind.YAML, FileKind.SHELL) for _ in project.documents(kind, SHARDING)):
        return
    for module in checked_code(project, ("accelerate",), (".prepare(",), (".backward(",)):
        if _may_enter_autocast(module):
            continue
        steps = dict.fromkeys(function_of(module, call) for call in module.calls_by_name.get("backward", ()))
        for call in (call for function in steps for call in calls_of(module, function)):
            if not is_without_gradients(module, call):
                yield from _of_call(project, module, call)


def _may_enter_autocast(module: ModuleNames) -> bool:
    return any(word in module.document.text for word in ("autocast", *SHARDING))


def _of_call(project: Project, module: ModuleNames, call: ast.Call) -> Iterator[Draft]:
    name = last_name(call.func)
    if not isinstance(call.func, ast.Attribute) or name.startswith("_") or name in WRAPPED:
        return
    unwrapped = _unwrapped(module, call.func.value)
    made = creations_of(project, module, unwrapped or call.func.value)
    stated = [_precision(project, item) for item in made]
    if not made or None in stated or len(set(stated)) > 1 or _is_called_in_autocast(project, module, call):
        return
    owners = [class_of(project, item.module, item.call.func) for item in made]
    methods = [method_of(project, *owner, name) if owner is not None else None for owner in owners]
    if all(method is not None and _runs_layers(project, method) for method in methods):
        place = next(item.module.place(item.through[0], "prepared here") for item in made)
        message = (
            f"accelerate puts its autocast around forward only: {name} computes in float32 here although the "
            f"Accelerator is set to {stated[0]}"
        )
        if unwrapped is None:
            message += f", and on several GPUs the wrapper of the model has no {name}"
        yield Draft.at(module, call, message, (place,))


def _unwrapped(module: ModuleNames, node: ast.expr) -> ast.expr | None:
    """``net`` of ``accelerator.unwrap_model(net)``, whose ``forward`` alone is still wrapped; also by its name."""
    call = only_value(module, node) if isinstance(node, ast.Name) else node
    is_it = isinstance(call, ast.Call) and len(call.args) == 1 and receiver_of(call, "unwrap_model") is not None
    return call.args[0] if isinstance(call, ast.Call) and is_it else None


def _precision(project: Project, made: Creation) -> str | None:
    """The 16-bit precision of the Accelerator that prepared the model; None where that is not certain."""
    prepared = [item for item in made.through if last_name(item.func) == "prepare"]
    if len(prepared) != 1 or len(made.through) > 1 or not isinstance(prepared[0].func, ast.Attribute):
        return None
    accelerators = creations_of(project, made.module, prepared[0].func.value)
    found = {_stated(project, item) for item in accelerators}
    return found.pop() if len(found) == 1 else None


def _stated(project: Project, made: Creation) -> str | None:
    if resolve(project, made.module, made.call.func) not in ACCELERATOR:
        return None
    value = next((item.value for item in made.call.keywords if item.arg == "mixed_precision"), None)
    word = value.value if isinstance(value, ast.Constant) else None
    return word if word in HALVES and isinstance(word, str) else None


def _is_called_in_autocast(project: Project, module: ModuleNames, call: ast.Call) -> bool:
    """Whether a caller of the function may stand inside an autocast."""
    function = function_of(module, call)
    sites = callers_of(project, module, function).sites if isinstance(function, ast.FunctionDef) else ()
    return any(_may_enter_autocast(site.module) for site in sites)


def _runs_layers(project: Project, method: FunctionTarget) -> bool:
    """Whether a method calls layers that its class makes, by itself: not through ``self(...)``, nor in an autocast."""
    module, node = method.module, method.node
    owner = module.scopes[node].enclosing_class
    if owner is None or node.decorator_list or _may_enter_autocast(module):
        return False
    called = [attribute_chain(item.func) or [""] for item in ast.walk(node) if isinstance(item, ast.Call)]
    if ["self"] in called or ["self", "forward"] in called:
        return False
    layers = [chain[1] for chain in called if len(chain) == 2 and chain[0] == "self"]
    return any(_is_layer(project, module, value) for layer in layers for value, _ in self_stores(module, owner, layer))


def _is_layer(project: Project, module: ModuleNames, value: ast.expr | None) -> bool:
    made = creations_of(project, module, value) if value is not None else ()
    return bool(made) and all(_makes_layer(project, item) for item in made)


def _makes_layer(project: Project, made: Creation) -> bool:
    owner = class_of(project, made.module, made.call.func)
    bases = all_bases(project, *owner) if owner is not None else ((made.module, made.call.func),)
    return any((holder.qualified(base) or "").startswith("torch.nn.") for holder, base in bases)
