"""Which devices an expression can name: what stands behind ``.to(device)`` and ``autocast(device_type=...)``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from ..purpose.files import is_test
from ..python.bindings import default_of, reaching, self_stores
from ..python.callers import callers_of
from ..python.functions import FunctionTarget, called_function, method_of, returns_of
from ..python.names import Binding, ModuleNames, attribute_chain, definition_of, names_of, project_module, resolve
from ..python.options import options_named
from ..python.paths import guards
from ..python.values import is_property, position_in_targets
from ..source.project import Project

MAX_DEPTH = 8
OPEN = "*"
"""The kind of a device that is chosen when the program runs: by an option, or by a library that serves several."""
ACCELERATORS = ("accelerate.Accelerator", "accelerate.accelerator.Accelerator", "accelerate.PartialState")
KINDS = frozenset(("cuda", "cpu", "mps", "xpu", "npu", "hpu", "mtia", "xla", "mlu", "musa"))
SETTINGS = ("args", "opt", "opts", "cfg", "config", "conf", "options", "hparams", "flags", "params", "settings")
"""What objects that hold a program's options are called."""
FABRICS = ("lightning.Fabric", "lightning.fabric.Fabric", "lightning_fabric.Fabric", "pytorch_lightning.Fabric")


@dataclass(frozen=True, slots=True)
class DeviceValue:
    """One device an expression can name."""

    kind: str = ""
    """``cuda``, ``cpu``, ``mps``, ...; ``*`` (`OPEN`); empty where the source does not say."""
    form: str = ""
    """``object`` (a ``torch.device``), ``text``, or empty where the source does not say."""
    indexed: bool = False
    """A text with an index (``cuda:0``)."""
    guessed: bool = False
    """Chosen by ``torch.cuda.is_available()``."""


UNKNOWN_DEVICE = DeviceValue()


class DeviceValues:
    """Evaluates expressions of one module. Nothing is executed; unknown is always an allowed answer."""

    def __init__(self, project: Project, module: ModuleNames) -> None:
        self.project = project
        self.module = module

    def of(self, node: ast.expr, depth: int = 0) -> frozenset[DeviceValue]:
        """All devices ``node`` can name; contains an unknown one where the source does not say."""
        if depth > MAX_DEPTH:
            return frozenset({UNKNOWN_DEVICE})
        return frozenset(self._values(node, depth + 1)) or frozenset({UNKNOWN_DEVICE})

    def _values(self, node: ast.expr, depth: int) -> Iterator[DeviceValue]:
        if isinstance(node, ast.Constant):
            yield _constant(node.value)
        elif isinstance(node, ast.JoinedStr | ast.BinOp):
            yield _written(_first_text(node))
        elif isinstance(node, ast.IfExp):
            yield from self._chosen((node.body, node.orelse), asks_for_cuda(self.module, node.test), depth)
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            yield from self._chosen(node.values, False, depth)
        elif isinstance(node, ast.NamedExpr):
            yield from self.of(node.value, depth)
        elif isinstance(node, ast.Name):
            bindings = reaching(self.module, self.module.scope_of(node).lookup(node.id), node)
            yield from self._bindings(bindings, depth)
        elif isinstance(node, ast.Attribute):
            yield from self._attribute(node, depth)
        elif isinstance(node, ast.Call):
            yield from self._call(node, depth)
        else:
            yield UNKNOWN_DEVICE

    def _chosen(self, nodes: Iterable[ast.expr], guessed: bool, depth: int) -> Iterator[DeviceValue]:
        for node in nodes:
            for value in self.of(node, depth):
                yield replace(value, guessed=True) if guessed else value

    def _bindings(self, bindings: Iterable[Binding], depth: int) -> Iterator[DeviceValue]:
        for binding in bindings:
            if binding.kind == "parameter":
                yield from self._parameter(binding, depth)
            elif binding.kind == "import":
                yield from self._imported(binding.node, binding.qualified, depth)
            elif binding.kind == "unpacked":
                yield from self._unpacked(binding, depth)
            elif binding.value is not None:
                yield from self._stored(binding.value, binding.node, depth)
            else:
                yield UNKNOWN_DEVICE

    def _stored(self, value: ast.expr, statement: ast.AST, depth: int) -> Iterator[DeviceValue]:
        asked = any(asks_for_cuda(self.module, guard.test) for guard in guards(self.module, statement))
        yield from self._chosen((value,), asked, depth)

    def _imported(self, node: ast.AST, qualified: str | None, depth: int) -> Iterator[DeviceValue]:
        name = (qualified or "").rpartition(".")[2]
        defined = definition_of(self.project, self.module, node) if isinstance(node, ast.expr) else None
        if defined is None and qualified is not None and isinstance(node, ast.ImportFrom):
            defined = self._defined(qualified)
        if defined is None:
            yield UNKNOWN_DEVICE
            return
        other, name = defined
        found = [item for item in other.module_scope.lookup(name) if item.value is not None]
        yield from DeviceValues(self.project, other)._bindings(found, depth) if found else (UNKNOWN_DEVICE,)

    def _defined(self, qualified: str) -> tuple[ModuleNames, str] | None:
        module_name, _, name = qualified.rpartition(".")
        document = project_module(self.project, module_name, self.module.document.path)
        return (names_of(self.project, document), name) if document is not None else None

    def _parameter(self, binding: Binding, depth: int) -> Iterator[DeviceValue]:
        form = "object" if self._is_annotated(binding) else ""
        function = binding.scope.node
        default = default_of(binding)
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) or depth > MAX_DEPTH - 3:
            yield DeviceValue(form=form)
            return
        callers = callers_of(self.project, self.module, function)
        if not callers.complete:
            yield DeviceValue(form=form)
        sites = [site for site in callers.sites if not is_test(site.module.document.path)] or callers.sites
        relies_on_default = not sites
        for site in sites:
            passed = site.target.arguments(site.call).get(binding.name)
            if passed is not None:
                yield from DeviceValues(self.project, site.module).of(passed, depth + 1)
            else:
                relies_on_default = True
        if relies_on_default and default is not None:
            yield from self.of(default, depth)

    def _is_annotated(self, binding: Binding) -> bool:
        annotation = binding.node.annotation if isinstance(binding.node, ast.arg) else None
        return annotation is not None and self.module.qualified(annotation) == "torch.device"

    def _unpacked(self, binding: Binding, depth: int) -> Iterator[DeviceValue]:
        node = binding.node
        call = node.value if isinstance(node, ast.Assign) else None
        position = position_in_targets(node, binding.name)
        target = called_function(self.project, self.module, call) if isinstance(call, ast.Call) else None
        if target is None or position is None:
            yield UNKNOWN_DEVICE
            return
        yield from self._returned(target, depth, position)

    def _returned(self, target: FunctionTarget, depth: int, position: int | None = None) -> Iterator[DeviceValue]:
        inner = DeviceValues(self.project, target.module)
        for returned in returns_of(target.node):
            value = returned.value
            if position is not None:
                value = value.elts[position] if isinstance(value, ast.Tuple) and position < len(value.elts) else None
            yield from inner._stored(value, returned, depth) if value is not None else (UNKNOWN_DEVICE,)

    def _attribute(self, node: ast.Attribute, depth: int) -> Iterator[DeviceValue]:
        if node.attr == "type":
            for value in self.of(node.value, depth):
                yield replace(value, form="text", indexed=False)
            return
        if node.attr == "device" and self._has_device_object(node.value):
            yield DeviceValue(OPEN if self._is_of_library(node.value) else "", "object")
            return
        chain, owner = attribute_chain(node), self.module.scope_of(node).enclosing_class
        if chain is not None and len(chain) == 2 and chain[0] == "self" and owner is not None:
            stores = self_stores(self.module, owner, chain[1])
            method = method_of(self.project, self.module, owner, chain[1]) if not stores else None
            for stored, statement in stores:
                yield from self._stored(stored, statement, depth) if stored is not None else (UNKNOWN_DEVICE,)
            if method is not None and is_property(method.node):
                yield from self._returned(method, depth)
            if stores or method is not None:
                return
        elif self.module.qualified(node) is not None:
            yield from self._imported(node, None, depth)
            return
        yield from self._option(node, depth)

    def _has_device_object(self, owner: ast.expr) -> bool:
        """``next(model.parameters()).device``, ``accelerator.device``."""
        if isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "next":
            called = owner.args[0].func if owner.args and isinstance(owner.args[0], ast.Call) else None
            return isinstance(called, ast.Attribute) and called.attr in ("parameters", "buffers")
        return self._is_of_library(owner)

    def _is_of_library(self, owner: ast.expr) -> bool:
        """Whether ``owner`` is an Accelerator or a Fabric: they place tensors on whatever device there is."""
        chain = attribute_chain(owner)
        if chain is None or chain[-1] not in ("accelerator", "fabric", "distributed_state"):
            return False
        values: list[ast.expr | None] = []
        scope = self.module.scope_of(owner)
        if len(chain) == 1:
            bindings = scope.lookup(chain[0])
            values = [item.value for item in bindings]
            if bindings and all(item.kind == "parameter" for item in bindings):
                package = "accelerate" if chain[0] != "fabric" else "lightning"
                return package in self.module.document.text
        elif len(chain) == 2 and chain[0] == "self" and scope.enclosing_class is not None:
            values = [value for value, _ in self_stores(self.module, scope.enclosing_class, chain[1])]
        made = [resolve(self.project, self.module, item.func) for item in values if isinstance(item, ast.Call)]
        return bool(made) and all(name in (*ACCELERATORS, *FABRICS) for name in made)

    def _option(self, node: ast.Attribute, depth: int) -> Iterator[DeviceValue]:
        receiver = (attribute_chain(node.value) or [""])[-1].lower()
        options = options_named(self.project, self.module, node.attr) if receiver in SETTINGS else []
        if not options or "device" not in node.attr.lower():
            yield UNKNOWN_DEVICE
            return
        for option in options:
            stated = option.choices or ((option.default,) if option.default is not None else ())
            yield from DeviceValues(self.project, option.module)._chosen(stated, False, depth)
            if not option.choices:
                yield DeviceValue(OPEN)

    def _call(self, node: ast.Call, depth: int) -> Iterator[DeviceValue]:
        name = resolve(self.project, self.module, node.func)
        if name == "torch.device":
            given = [*node.args, *(item.value for item in node.keywords if item.arg in ("type", "device"))]
            for value in self.of(given[0], depth) if given else (UNKNOWN_DEVICE,):
                yield replace(value, form="object", indexed=False)
        elif isinstance(node.func, ast.Name) and node.func.id == "str" and len(node.args) == 1:
            for value in self.of(node.args[0], depth):
                yield replace(value, form="text")
        elif name is not None and name.startswith("torch."):
            yield UNKNOWN_DEVICE
        else:
            target = called_function(self.project, self.module, node)
            yield from self._returned(target, depth) if target is not None else (UNKNOWN_DEVICE,)


def devices_of(project: Project, module: ModuleNames, node: ast.expr) -> frozenset[DeviceValue]:
    """All devices that an expression of ``module`` can name."""
    return DeviceValues(project, module).of(node)


def asks_for_cuda(module: ModuleNames, test: ast.expr) -> bool:
    """``torch.cuda.is_available()``, plain or negated."""
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return isinstance(test, ast.Call) and module.qualified(test.func) == "torch.cuda.is_available"


def is_cuda_or_other(values: Iterable[DeviceValue]) -> bool:
    """Whether the source says that the device can be a CUDA GPU and can be another one."""
    kinds = {value.kind for value in values}
    return OPEN in kinds or ("cuda" in kinds and bool(kinds - {"cuda", ""}))


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
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
    return text if ":" in text else ""
