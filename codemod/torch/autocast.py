"""Where autocast is made: every spelling, its device, its dtype, its switch, and how the object is used.

Source of the defaults: ``torch.get_autocast_dtype`` in PyTorch 2.13: cuda, xpu, mps float16; cpu, hpu, xla bfloat16.
So ``autocast()`` without a dtype on CUDA computes in float16.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..python.arguments import Signature, argument, bind, receiver_of
from ..python.bindings import reaching
from ..python.conditions import conditions_in, never_reached
from ..python.keywords import entries_of, keywords_of
from ..python.names import ModuleNames, checked_modules, modules_with
from ..python.paths import guards
from ..python.scopes import is_off
from ..python.trace import TABLES, trace
from ..source.facts import fact, memo
from ..source.project import Project
from .dtype_values import scenarios_of
from .dtypes import BF16, FP16, FP32, TORCH_DTYPES, UNKNOWN, Constant, Dtype, Scenario, TextCondition
from .named_api import api_named, names_for

WORDS = ("autocast",)
"""A file without any of these words makes no autocast."""

GENERIC = Signature(("device_type", "dtype", "enabled", "cache_enabled"))
OF_DEVICE = Signature(("enabled", "dtype", "cache_enabled"))

APIS = {
    "torch.autocast": GENERIC,
    "torch.amp.autocast": GENERIC,
    "torch.amp.autocast_mode.autocast": GENERIC,
    "torch.cuda.amp.autocast": OF_DEVICE,
    "torch.cuda.amp.autocast_mode.autocast": OF_DEVICE,
    "torch.cpu.amp.autocast": OF_DEVICE,
    "torch.cpu.amp.autocast_mode.autocast": OF_DEVICE,
    "torch.xpu.amp.autocast": OF_DEVICE,
    "torch.npu.amp.autocast": OF_DEVICE,
}
DEFAULT_DTYPE: dict[str, Dtype] = {
    "cuda": FP16,
    "xpu": FP16,
    "mps": FP16,
    "npu": FP16,
    "cpu": BF16,
    "hpu": BF16,
    "xla": BF16,
}
DEFAULT_SETTERS = ("set_autocast_gpu_dtype", "set_autocast_dtype", "set_autocast_cpu_dtype")
"""Calls that change what "no dtype" means; a module that holds one has no known default."""

PARTIALS = ("functools.partial", "partial")
WITHOUT_GRADIENTS = {"torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad"}


AutocastForm: TypeAlias = Literal["with", "decorator", "statement", "partial", "reference", "value"]


@dataclass(frozen=True, slots=True, eq=False)
class Autocast:
    """One expression that makes (or names) an autocast context."""

    module: ModuleNames
    reference: ast.expr
    """The Name or Attribute that names autocast."""
    call: ast.Call | None
    """The call that makes it; for ``functools.partial(autocast, ...)`` the partial; None for a bare reference."""
    api: str
    form: AutocastForm
    """``with``, ``decorator``, ``statement``, ``partial``, ``reference`` or ``value`` (assigned, returned, passed)."""
    device: str | None
    """``cuda``, ``cpu``, ... when it is written down; None when an expression decides."""
    device_node: ast.expr | None
    dtype_node: ast.expr | None
    enabled_node: ast.expr | None
    understood: bool
    """False when ``*args``/``**kwargs`` hide arguments."""

    @property
    def node(self) -> ast.expr:
        return self.call or self.reference

    @property
    def is_old_api(self) -> bool:
        """Made by ``torch.cuda.amp`` and its like, whose first argument is ``enabled``."""
        return APIS[self.api] is OF_DEVICE

    @property
    def switched_off(self) -> bool:
        """``enabled=False`` written down: a deliberate float32 island."""
        return is_off(self.enabled_node)


DTYPE_SINCE = "1.10"
"""The release of PyTorch from which ``torch.cuda.amp.autocast`` takes ``dtype=``; ``torch.autocast`` came with it."""


@memo
def autocasts_in(project: Project, module: ModuleNames) -> tuple[Autocast, ...]:
    """Every autocast made in one module, in source order."""
    found = []
    named: list[ast.Name | ast.Attribute] = [*module.attribute_loads.get("autocast", [])]
    for name in {"autocast", *names_for(project, module, "autocast")}:
        named += module.name_loads.get(name, [])
    for node in named:
        api = _api(project, module, node)
        if api is not None:
            found.append(_autocast(project, module, node, api))
    return tuple(sorted(found, key=lambda item: (item.node.lineno, item.node.col_offset)))


@fact
def autocasts(project: Project) -> tuple[Autocast, ...]:
    """Every autocast made in the project."""
    modules = modules_with(project, WORDS)
    return tuple(item for module in modules for item in autocasts_in(project, module))


def checked_autocasts(project: Project) -> tuple[Autocast, ...]:
    """Those in the files in which mistakes are looked for."""
    modules = checked_modules(project, WORDS)
    return tuple(item for module in modules for item in autocasts_in(project, module))


def training_autocasts(project: Project) -> tuple[Autocast, ...]:
    """Every autocast made in a file that also runs a backward pass, and that no constant keeps from running."""
    found = (item for item in autocasts(project) if "backward" in item.module.calls_by_name)
    return tuple(item for item in found if not never_reached(project, item.module, item.node))


def _api(project: Project, module: ModuleNames, node: ast.Name | ast.Attribute) -> str | None:
    if isinstance(module.parents.get(node), ast.Attribute):
        return None
    qualified = module.qualified(node)
    if qualified is None:
        is_named = isinstance(node, ast.Name) and node.id in names_for(project, module, "autocast")
    else:
        is_named = qualified.rpartition(".")[2] == "autocast"
    parent = module.parents[node]
    call = parent if isinstance(parent, ast.Call) and parent.func is node else None
    return api_named(project, module, node, APIS, call) if is_named else None


def _autocast(project: Project, module: ModuleNames, node: ast.Name | ast.Attribute, api: str) -> Autocast:
    parent = module.parents[node]
    call: ast.Call | None = None
    form: AutocastForm = "reference"
    arguments: dict[str, ast.expr] | None = {}
    if isinstance(parent, ast.Call) and parent.func is node:
        call, form = parent, _form(module, parent)
        arguments = bind(APIS[api], parent)
        if arguments is None:
            arguments = _with_dictionary(project, module, parent, APIS[api])
    elif isinstance(parent, ast.Call) and parent.args[:1] == [node] and module.qualified(parent.func) in PARTIALS:
        call, form = parent, "partial"
        arguments = bind(APIS[api], parent, skip=1)
    elif node in getattr(parent, "decorator_list", ()):
        form = "decorator"
    known = arguments if arguments is not None else {}
    device_node = known.get("device_type")
    return Autocast(
        module,
        node,
        call,
        api,
        form,
        _device(api, device_node),
        device_node,
        known.get("dtype"),
        known.get("enabled"),
        arguments is not None,
    )


def _with_dictionary(
    project: Project, module: ModuleNames, call: ast.Call, signature: Signature
) -> dict[str, ast.expr] | None:
    """``autocast(**options)`` with a dictionary that is written down; of several, where all agree on the dtype."""
    given = keywords_of(module, call)
    splats = [item.value for item in call.keywords if item.arg is None] if not given.complete else []
    tables = [table for splat in splats for table in trace(project, module, splat, TABLES)]
    found = [entries_of(*table) if table is not None and table[0] is module else None for table in tables]
    known = [item for item in found if item is not None]
    dtypes = {ast.unparse(item["dtype"]) if "dtype" in item else "" for item in known}
    is_known = given.complete or (len(splats) == len(dtypes) == 1 and len(known) == len(found))
    if not is_known or any(isinstance(item, ast.Starred) for item in call.args):
        return None
    return {**dict(zip(signature.names, call.args, strict=False)), **given.values, **dict(*known[-1:])}


def _form(module: ModuleNames, call: ast.Call) -> AutocastForm:
    parent = module.parents[call]
    if isinstance(parent, ast.withitem):
        return "with"
    if call in getattr(parent, "decorator_list", ()):
        return "decorator"
    return "statement" if isinstance(parent, ast.Expr) else "value"


def _device(api: str, node: ast.expr | None) -> str | None:
    if APIS[api] is OF_DEVICE:
        return api.split(".")[1]
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.partition(":")[0]
    return None


def dtype_scenarios(project: Project, autocast: Autocast) -> tuple[Scenario, ...]:
    """What the region computes in. A device decided at run time counts as CUDA: that is where training runs."""
    if not autocast.understood or autocast.form == "reference" or _raises(autocast):
        return (Scenario(UNKNOWN),)
    if autocast.dtype_node is not None:
        explicit = scenarios_of(project, autocast.module, autocast.dtype_node)
        if any(item.value is None for item in explicit) and _is_off_without(project, autocast, autocast.dtype_node):
            explicit = tuple(item for item in explicit if item.value is not None) or explicit
        default = _default(project, autocast)
        return tuple(Scenario(default, item.given) if item.value is None else item for item in explicit)
    return (Scenario(_default(project, autocast)),)


def _raises(autocast: Autocast) -> bool:
    """``torch.cuda.amp.autocast(torch.bfloat16)``: the dtype is taken for the switch, and nothing is computed."""
    switch = autocast.enabled_node
    return switch is not None and autocast.module.qualified(switch) in TORCH_DTYPES


def _is_off_without(project: Project, autocast: Autocast, dtype: ast.expr) -> bool:
    """Whether a region is off, or not come to, where its dtype is None: ``enabled=dtype is not None``."""
    module, conditions = autocast.module, conditions_in(project, autocast.module)
    missing = (TextCondition(ast.unparse(dtype), (None,), True, dtype, module.scope_of(dtype)),)
    if autocast.enabled_node is not None and conditions.decide(autocast.enabled_node, missing) is False:
        return True
    same = (guard for guard in guards(module, autocast.node) if _is_read_alike(module, guard.test, dtype))
    return any(conditions.decide(guard.test, missing) is (not guard.holds) for guard in same)


def _is_read_alike(module: ModuleNames, test: ast.expr, dtype: ast.expr) -> bool:
    """Whether a variable has the value in a test that it has at the region."""
    name = dtype if isinstance(dtype, ast.Name) else None
    found = module.bindings_of(name) if name is not None else []
    return name is None or reaching(module, found, test) == reaching(module, found, name)


def _default(project: Project, autocast: Autocast) -> Constant:
    if changes_default(project):
        return UNKNOWN
    return DEFAULT_DTYPE.get(autocast.device or "cuda", UNKNOWN)


@fact
def changes_default(project: Project) -> bool:
    """Whether the project itself changes autocast's default dtype (``torch.set_autocast_gpu_dtype``)."""
    calls = (call for module in modules_with(project, DEFAULT_SETTERS) for call in module.calls)
    return any(receiver_of(call, *DEFAULT_SETTERS) is not None for call in calls)


def is_float32_island(project: Project, autocast: Autocast) -> bool:
    """Switched off, or in float32: put there on purpose."""
    return autocast.switched_off or all(item.value == FP32 for item in dtype_scenarios(project, autocast))


def runs_without_gradients(autocast: Autocast) -> bool:
    """Whether the region certainly stands under ``no_grad``/``inference_mode`` (an evaluation, not a training step)."""
    return is_without_gradients(autocast.module, autocast.node)


def is_without_gradients(module: ModuleNames, node: ast.AST) -> bool:
    """Whether ``node`` certainly stands under ``no_grad``/``inference_mode`` in its function, or is its context."""
    for parent in module.ancestors(node):
        for expression in _contexts(parent):
            call = expression if isinstance(expression, ast.Call) else None
            name = module.qualified(call.func if call is not None else expression)
            asked = argument(call, "mode", position=0) if call is not None else None
            if name in WITHOUT_GRADIENTS or (name == "torch.set_grad_enabled" and is_off(asked)):
                return True
    return False


def _contexts(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.With | ast.AsyncWith):
        yield from (item.context_expr for item in node.items)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from node.decorator_list
