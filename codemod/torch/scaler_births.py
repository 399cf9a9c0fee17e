"""Where a scaler is made: every spelling of the API, subclasses, and classes of the project that hold one."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..python.arguments import Signature, bind
from ..python.functions import bases_of, called_function, class_of
from ..python.names import ModuleNames, Scope, attribute_chain, parameters_of
from ..source.project import Project
from .named_api import api_named, names_for
from .scaler import Scaler

WORD = "caler"
"""What is in every name of a scaler's class."""
WORDS = ("GradScaler", "NativeScaler", "grad_scaler")
"""A file without any of these words makes no scaler."""

OF_CUDA = Signature(("init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"))
GENERIC = Signature(("device", "init_scale", "growth_factor", "backoff_factor", "growth_interval", "enabled"))
SHARDED = Signature(("device", "init_scale", "backoff_factor", "growth_factor", "growth_interval", "enabled"))
NO_SIGNATURE = Signature(())

APIS = {
    "torch.cuda.amp.GradScaler": OF_CUDA,
    "torch.cuda.amp.grad_scaler.GradScaler": OF_CUDA,
    "torch.cpu.amp.GradScaler": OF_CUDA,
    "torch.cpu.amp.grad_scaler.GradScaler": OF_CUDA,
    "torch.xpu.amp.GradScaler": OF_CUDA,
    "torch.npu.amp.GradScaler": OF_CUDA,
    "torch_npu.npu.amp.GradScaler": OF_CUDA,
    "torch.GradScaler": GENERIC,
    "torch.amp.GradScaler": GENERIC,
    "torch.amp.grad_scaler.GradScaler": GENERIC,
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler": SHARDED,
    "fairscale.optim.grad_scaler.ShardedGradScaler": OF_CUDA,
    "fairscale.optim.ShardedGradScaler": OF_CUDA,
    "timm.utils.NativeScaler": NO_SIGNATURE,
    "timm.utils.cuda.NativeScaler": NO_SIGNATURE,
}
WRAPPERS = ("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler")


def scaler_api(project: Project, module: ModuleNames, node: ast.expr, call: ast.Call | None = None) -> str | None:
    """The qualified API when ``node`` names a scaler class, which ``call`` calls; None otherwise."""
    if not isinstance(node, ast.Name | ast.Attribute):
        return None
    is_alias = isinstance(node, ast.Name) and node.id in names_for(project, module, WORD)
    is_named = is_alias or WORD in (module.qualified(node) or "")
    return api_named(project, module, node, APIS, call) if is_named else None


def scaler_made_by(project: Project, module: ModuleNames, call: ast.Call) -> Scaler | None:
    """The scaler that ``call`` makes, not followed yet; None when it makes none."""
    api = scaler_api(project, module, call.func, call)
    if api is not None:
        arguments = bind(APIS[api], call)
        if api in WRAPPERS:
            return Scaler(module, call, api, "wrapper", arguments, switch="")
        return Scaler(module, call, api, "direct", arguments, switch="enabled")
    chain = attribute_chain(call.func)
    if chain is None or "caler" not in chain[-1]:
        return None
    owner = class_of(project, module, call.func)
    if owner is None:
        return None
    base = _base_api(project, *owner)
    if base is not None:
        keywords = {item.arg: item.value for item in call.keywords if item.arg is not None}
        return Scaler(module, call, base, "subclass", keywords)
    inner = tuple(_held_scalers(project, *owner))
    return _wrapper(project, module, call, inner) if inner else None


def _wrapper(
    project: Project, module: ModuleNames, call: ast.Call, inner: tuple[tuple[ModuleNames, ast.Call], ...]
) -> Scaler:
    """An object of a class that holds a scaler; its switch is the parameter that ``enabled=`` of the held one names."""
    target = called_function(project, module, call)
    arguments = target.arguments(call) if target is not None else {}
    enabled = [item.value for _, made in inner for item in made.keywords if item.arg == "enabled"]
    names = {item.id if isinstance(item, ast.Name) else "" for item in enabled}
    switch = names.pop() if len(names) == 1 and len(enabled) == len(inner) else ""
    known = {item.arg for item in parameters_of(target.node)} if target is not None else set()
    return Scaler(module, call, "", "wrapper", arguments, inner, switch if switch in known else "")


def _base_api(project: Project, module: ModuleNames, owner: Scope) -> str | None:
    return next((api for base in bases_of(owner) if (api := scaler_api(project, module, base)) is not None), None)


def _held_scalers(project: Project, module: ModuleNames, owner: Scope) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The scalers that a class makes for an attribute of its own."""
    for node in ast.walk(owner.node):
        if isinstance(node, ast.Assign) and any((attribute_chain(item) or [""])[0] == "self" for item in node.targets):
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and scaler_api(project, module, call.func) is not None:
                    yield module, call
