"""Which devices an expression can name: what stands behind ``.to(device)`` and ``autocast(device_type=...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ..python.bindings import reaching, self_stores
from ..python.names import Binding, ModuleNames, attribute_chain, resolve, string_of
from ..python.paths import guards
from ..python.trace import Domain, Trace, trace
from ..python.trace_steps import TraceGap
from ..source.documents import FileKind
from ..source.project import Project
from .api import ACCELERATOR, FABRIC, PARTIAL_STATE
from .device_tests import speaking

OPEN = "*"
"""The kind of a device that is chosen when the program runs: by an option, or by a library that serves several."""
KINDS = frozenset(("cuda", "cpu", "mps", "xpu", "npu", "hpu", "mtia", "xla", "mlu", "musa"))


RANKS = frozenset(("RANK", "LOCAL_RANK", "WORLD_SIZE"))
"""What launchers put into the environment of each process."""
LAUNCHERS = (
    *("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate launch", "deepspeed", "srun"),
    *("mpirun", "mpiexec", "horovodrun"),
)
SPEAKS_OF_RANK = speaking(lambda node: isinstance(node, ast.Constant) and node.value in RANKS)

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


def devices_in_runs(project: Project, module: ModuleNames, node: ast.expr) -> frozenset[DeviceValue]:
    """The same without what a variable only has in runs of several processes, where the project starts none."""
    bindings = reaching(module, module.bindings_of(node), node) if isinstance(node, ast.Name) else []
    given = [
        item for item in bindings if not (_is_by_rank(project, module, item) and not _is_launched(project, module))
    ]
    if len(given) in (0, len(bindings)):
        return devices_of(project, module, node)
    return frozenset(value for item in given for value in trace(project, module, item, DEVICES))


def _is_by_rank(project: Project, module: ModuleNames, binding: Binding) -> bool:
    """Whether a launcher's environment decides that a binding runs, and what it gives: ``f"cuda:{local_rank}"``."""
    value, tests = binding.value, [guard.test for guard in guards(module, binding.node)]
    by_rank = any(True in trace(project, module, test, SPEAKS_OF_RANK) for test in tests)
    return by_rank and value is not None and True in trace(project, module, value, SPEAKS_OF_RANK)


def _is_launched(project: Project, module: ModuleNames) -> bool:
    """Whether something says that programs are started in several processes; a notebook never is."""
    if module.document.kind is FileKind.NOTEBOOK:
        return False
    texts = (FileKind.TEXT, FileKind.SHELL, FileKind.YAML)
    shown = any(word in module.document.text for word in LAUNCHERS)
    return shown or any(True for kind in texts for _ in project.documents(kind, LAUNCHERS))


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


def _gap(_question: Trace[DeviceValue], module: ModuleNames, node: ast.AST, why: TraceGap) -> Iterable[DeviceValue]:
    if why is TraceGap.OPTION:
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
