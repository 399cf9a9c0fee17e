"""One scaler: where it is made, in every spelling of the API, the names it has, and every use of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..python.arguments import Signature, bind
from ..python.functions import bases_of, called_function, class_of
from ..python.names import ModuleNames, Scope, attribute_chain, parameters_of
from ..python.scopes import is_off
from ..source.project import Project
from .named_api import api_named, names_for

Method: TypeAlias = Literal[
    "scale", "step", "unscale_", "update", "get_scale", "is_enabled", "state_dict", "load_state_dict"
]
UseKind: TypeAlias = Literal[
    Method,
    "method",
    "bound-method",
    "private",
    "none-test",
    "called",
    "assigned",
    "argument",
    "returned",
    "stored",
    "item",
    "kept",
    "escaped",
]
IDLE = ("assigned", "argument", "none-test", "kept", "state_dict", "load_state_dict", "get_scale", "is_enabled")
"""Kinds of uses with which no gradient is scaled; what a parameter is used for is followed."""
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, slots=True, eq=False)
class ScalerUse:
    """One reference to a scaler and what is done with it."""

    kind: UseKind
    """A method of METHODS; ``method`` (another one), ``bound-method`` (taken, not called), ``private``, ``none-test``,
    ``called`` (a wrapper object), ``assigned``, ``argument``, ``returned``, ``stored``, ``item`` (of an
    object: ``made["scaler"] = ...``), ``kept`` (handed to what saves, logs or prepares it, which scales nothing) or
    ``escaped``."""
    module: ModuleNames
    node: ast.expr
    call: ast.Call | None = None


@dataclass(frozen=True, slots=True)
class NameAlias:
    """A variable or parameter of one scope."""

    module: ModuleNames
    scope: Scope
    name: str


@dataclass(frozen=True, slots=True)
class AttributeAlias:
    """An attribute: of ``self`` in ``owner``, or (owner None) of some object in ``module``."""

    module: ModuleNames
    owner: Scope | None
    name: str


@dataclass(frozen=True, slots=True)
class KeyAlias:
    """The value of a dictionary under a key."""

    name: str


Alias: TypeAlias = NameAlias | AttributeAlias | KeyAlias


@dataclass(slots=True, eq=False)
class Scaler:
    """One place that makes a scaler, with everything that is done to it."""

    module: ModuleNames
    call: ast.Call
    api: str
    kind: Literal["direct", "subclass", "wrapper"]
    """``direct``, ``subclass`` (of GradScaler, in the project) or ``wrapper`` (an object that holds one)."""
    arguments: dict[str, ast.expr] | None
    """Bound arguments of a direct scaler; None when ``*``/``**`` hide them."""
    inner: tuple[tuple[ModuleNames, ast.Call], ...] = ()
    """For a wrapper class of the project: the calls that make the scaler it holds."""
    switch: str = "enabled"
    """The argument of the call that switches the scaler on; empty for a wrapper that has none."""
    aliases: list[Alias] = field(default_factory=list)
    uses: list[ScalerUse] = field(default_factory=list)
    routes: set[str] = field(default_factory=set)
    """How it travels: ``attribute``, ``parameter``, ``returned``, ``stored``, ``escaped``, ``none-test``,
    ``conditional``, ``shared-name`` (the name is bound elsewhere too), ``module-name``, ``other-file``."""

    @property
    def enabled_node(self) -> ast.expr | None:
        return (self.arguments or {}).get(self.switch)

    @property
    def switched_off(self) -> bool:
        return is_off(self.enabled_node)

    @property
    def modules(self) -> list[ModuleNames]:
        """The modules in which the scaler is made or used."""
        found = [self.module]
        for use in self.uses:
            if use.module not in found:
                found.append(use.module)
        return found

    def uses_of(self, *kinds: str) -> list[ScalerUse]:
        return [use for use in self.uses if use.kind in kinds]

    @property
    def is_used(self) -> bool:
        """Whether some line may scale, unscale, step or update with it."""
        return any(use.kind not in IDLE for use in self.uses)


# --- where it is made -------------------------------------------------------------------------------------------------


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
        if APIS[api] is NO_SIGNATURE:  # a wrapper of a library
            return Scaler(module, call, api, "wrapper", arguments, switch="")
        return Scaler(module, call, api, "direct", arguments, switch="enabled")
    chain = attribute_chain(call.func)
    owner = class_of(project, module, call.func) if chain is not None and WORD in chain[-1] else None
    if owner is None:
        return None
    named = (scaler_api(project, owner[0], base) for base in bases_of(owner[1]))
    base = next((api for api in named if api is not None), None)
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


def _held_scalers(project: Project, module: ModuleNames, owner: Scope) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The scalers that a class makes for an attribute of its own."""
    for node in ast.walk(owner.node):
        if isinstance(node, ast.Assign) and any((attribute_chain(item) or [""])[0] == "self" for item in node.targets):
            for call in ast.walk(node.value):
                if isinstance(call, ast.Call) and scaler_api(project, module, call.func) is not None:
                    yield module, call
