"""Which devices an expression can name: what stands behind ``.to(device)`` and ``autocast(device_type=...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..python.bindings import self_stores
from ..python.names import ModuleNames, attribute_chain, resolve, string_of
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import Gap
from ..source.project import Project
from .api import ACCELERATOR, FABRIC, PARTIAL_STATE

OPEN = "*"
"""The kind of a device that is chosen when the program runs: by an option, or by a library that serves several."""
KINDS = frozenset(("cuda", "cpu", "mps", "xpu", "npu", "hpu", "mtia", "xla", "mlu", "musa"))


DeviceForm: TypeAlias = Literal["object", "text", ""]


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """One device an expression can name."""

    kind: str = ""
    """``cuda``, ``cpu``, ``mps``, ...; ``*`` (`OPEN`); empty where the source does not say."""
    form: DeviceForm = ""
    """``object`` (a ``torch.device``), ``text``, or empty where the source does not say."""
    indexed: bool = False
    """A text with an index (``cuda:0``)."""


UNKNOWN_DEVICE = DeviceValue()


def devices_of(project: Project, module: ModuleNames, node: ast.expr) -> frozenset[DeviceValue]:
    """All devices that an expression of ``module`` can name; an unknown one where the source does not say."""
    return frozenset(trace(project, module, node, DEVICES))


def _leaf(question: Trace[DeviceValue], module: ModuleNames, node: ast.expr) -> Iterable[DeviceValue] | None:
    if isinstance(node, ast.Constant):
        return (_constant(node.value),)
    if isinstance(node, ast.JoinedStr | ast.BinOp):
        return (_written(_first_text(node)),)
    if isinstance(node, ast.Attribute) and node.attr == "type":
        return [replace(value, form="text", indexed=False) for value in question.of(module, node.value)]
    if isinstance(node, ast.Attribute) and node.attr == "device" and _has_device_object(question.project, module, node):
        return (DeviceValue(OPEN if _is_of_library(question.project, module, node.value) else "", "object"),)
    return _called(question, module, node) if isinstance(node, ast.Call) else None


def _called(question: Trace[DeviceValue], module: ModuleNames, node: ast.Call) -> Iterable[DeviceValue] | None:
    """``torch.device(x)`` and ``str(x)``; None for other calls."""
    if resolve(question.project, module, node.func) == "torch.device":
        given = [*node.args, *(item.value for item in node.keywords if item.arg in ("type", "device"))]
        values = question.of(module, given[0]) if given else (UNKNOWN_DEVICE,)
        return [replace(value, form="object", indexed=False) for value in values]
    if isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
        return [replace(value, form="text") for value in question.of(module, node.args[0])]
    return None


def _gap(_question: Trace[DeviceValue], module: ModuleNames, node: ast.AST, why: Gap) -> Iterable[DeviceValue]:
    if why is Gap.OPTION:
        return (DeviceValue(OPEN),)
    annotation = node.annotation if isinstance(node, ast.arg) else None
    is_object = annotation is not None and module.qualified(annotation) == "torch.device"
    return (DeviceValue(form="object" if is_object else ""),)


DEVICES: Domain[DeviceValue] = Domain(_leaf, _gap)
"""A device, and in which form it is named."""


def _has_device_object(project: Project, module: ModuleNames, node: ast.Attribute) -> bool:
    """``next(model.parameters()).device``, ``accelerator.device``."""
    owner = node.value
    if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "next":
        called = owner.args[0].func if owner.args and isinstance(owner.args[0], ast.Call) else None
        return isinstance(called, ast.Attribute) and called.attr in ("parameters", "buffers")
    return _is_of_library(project, module, owner)


def _is_of_library(project: Project, module: ModuleNames, owner: ast.expr) -> bool:
    """Whether ``owner`` is an Accelerator or a Fabric: they place tensors on whatever device there is."""
    chain = attribute_chain(owner)
    if chain is None or chain[-1] not in ("accelerator", "fabric", "distributed_state"):
        return False
    values: list[ast.expr | None] = []
    scope = module.scope_of(owner)
    if len(chain) == 1:
        bindings = scope.lookup(chain[0])
        values = [item.value for item in bindings]
        if bindings and all(item.kind == "parameter" for item in bindings):
            package = "accelerate" if chain[0] != "fabric" else "lightning"
            return module.mentions(package)
    elif len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
        values = [value for value, _ in self_stores(module, scope.enclosing_class, chain[1])]
    made = [resolve(project, module, item.func) for item in values if isinstance(item, ast.Call)]
    return bool(made) and all(name in (*ACCELERATOR, *PARTIAL_STATE, *FABRIC) for name in made)


def _constant(value: object) -> DeviceValue:
    if isinstance(value, str):
        return _written(value)
    return DeviceValue("cuda") if type(value) is int else UNKNOWN_DEVICE


def _written(text: str) -> DeviceValue:
    kind, colon, _ = text.partition(":")
    return DeviceValue(kind, "text", bool(colon)) if kind in KINDS else UNKNOWN_DEVICE


def _first_text(node: ast.expr) -> str:
    """What ``f"cuda:{rank}"`` and ``"cuda:" + rank`` begin with; empty unless the kind is told apart by a colon."""
    if isinstance(node, ast.JoinedStr):
        node = node.values[0] if node.values else node
    elif isinstance(node, ast.BinOp):
        node = node.left
    text = string_of(node) or ""
    return text if ":" in text else ""
