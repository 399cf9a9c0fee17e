"""Where a project names PyTorch's old, per-device AMP interface, and what it does with each name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ....codemod.python.arguments import Signature
from ....codemod.python.names import ModuleNames, attribute_chain, modules_with, resolve
from ....codemod.releases.gates import is_gated
from ....codemod.source.facts import fact
from ....codemod.source.project import Project

WORDS = ("autocast", "gradscaler", "custom_fwd", "custom_bwd", "cuda.amp", "cpu.amp")
"""A file without any of these words uses none of it (letter case aside)."""


DeprecatedKind: TypeAlias = Literal["autocast", "GradScaler", "custom", "function"]


UseForm: TypeAlias = Literal["call", "decorator", "partial", "reference", "annotation", "type", "base"]


@dataclass(frozen=True, slots=True)
class Deprecated:
    """One old name and what PyTorch itself says about it."""

    kind: DeprecatedKind
    """``autocast``, ``GradScaler``, ``custom`` (a decorator) or ``function``."""
    name: str
    """The new name, below ``torch.amp`` (for functions: below ``torch``)."""
    device: str
    since: str
    """The release of PyTorch that has the new spelling."""
    warning: str
    """The text of the warning that a use gives."""

    @property
    def new_name(self) -> str:
        return f"torch.{self.name}" if self.kind == "function" else f"torch.amp.{self.name}"


def _of_amp(kind: DeprecatedKind, name: str, device: str, since: str) -> Deprecated:
    new = f"args..., device_type='{device}'" if kind == "custom" else f"'{device}', args..."
    old = f"torch.{device}.amp.{name}"
    warning = f"`{old}(args...)` is deprecated. Please use `torch.amp.{name}({new})` instead."
    return Deprecated(kind, name, device, since, warning)


def _of_torch(old: str, name: str, device: str, given: str = "") -> Deprecated:
    passed = f", {given}" if given else ""
    text = f"torch.{old}({given}) is deprecated. Please use torch.{name}('{device}'{passed}) instead."
    return Deprecated("function", name, device, "2.4", text)


DEPRECATED = {
    **{
        f"torch.{device}.amp.{part}autocast": _of_amp("autocast", "autocast", device, "1.12")
        for device in ("cuda", "cpu")
        for part in ("", "autocast_mode.")
    },
    **{
        f"torch.{device}.amp.{part}GradScaler": _of_amp("GradScaler", "GradScaler", device, "2.3")
        for device in ("cuda", "cpu")
        for part in ("", "grad_scaler.")
    },
    **{
        f"torch.cuda.amp.{part}{name}": _of_amp("custom", name, "cuda", "2.4")
        for name in ("custom_fwd", "custom_bwd")
        for part in ("", "autocast_mode.")
    },
    "torch.get_autocast_gpu_dtype": _of_torch("get_autocast_gpu_dtype", "get_autocast_dtype", "cuda"),
    "torch.get_autocast_cpu_dtype": _of_torch("get_autocast_cpu_dtype", "get_autocast_dtype", "cpu"),
    "torch.get_autocast_xla_dtype": _of_torch("get_autocast_xla_dtype", "get_autocast_dtype", "xla"),
    "torch.set_autocast_gpu_dtype": _of_torch("set_autocast_gpu_dtype", "set_autocast_dtype", "cuda", "dtype"),
    "torch.set_autocast_cpu_dtype": _of_torch("set_autocast_cpu_dtype", "set_autocast_dtype", "cpu", "dtype"),
    "torch.set_autocast_xla_dtype": _of_torch("set_autocast_xla_dtype", "set_autocast_dtype", "xla", "dtype"),
    "torch.is_autocast_cpu_enabled": _of_torch("is_autocast_cpu_enabled", "is_autocast_enabled", "cpu"),
    "torch.is_autocast_xla_enabled": _of_torch("is_autocast_xla_enabled", "is_autocast_enabled", "xla"),
    "torch.set_autocast_cpu_enabled": _of_torch("set_autocast_cpu_enabled", "set_autocast_enabled", "cpu", "enabled"),
    "torch.set_autocast_xla_enabled": _of_torch("set_autocast_xla_enabled", "set_autocast_enabled", "xla", "enabled"),
}
"""Verified with PyTorch 2.13: each of these warns when it is called, and its new spelling does not."""

OLD_AUTOCAST = Signature(("enabled", "dtype", "cache_enabled"))
NEW_CLASSES = {
    "torch.amp.autocast",
    "torch.autocast",
    "torch.amp.autocast_mode.autocast",
    "torch.amp.GradScaler",
    "torch.GradScaler",
    "torch.amp.grad_scaler.GradScaler",
}
_LAST = {qualified.rpartition(".")[2] for qualified in DEPRECATED}
_MODULES = {"torch.cuda.amp", "torch.cpu.amp"}


@dataclass(frozen=True, slots=True, eq=False)
class DeprecatedUse:
    """One place that names an old API."""

    module: ModuleNames
    node: ast.expr
    """The Name or Attribute."""
    api: str
    form: UseForm
    """``call``, ``decorator`` (bare), ``partial``, ``reference`` (kept for later): these lead to the warning.
    ``annotation``, ``type`` (compared, a key, an ``isinstance``), ``base`` (of a class): these do not."""
    call: ast.Call | None
    """For ``partial`` the call of partial."""
    gated: bool

    @property
    def entry(self) -> Deprecated:
        return DEPRECATED[self.api]

    @property
    def warns(self) -> bool:
        """Whether running this place (or what it hands on) gives the warning."""
        return not self.gated and self.form in ("call", "decorator", "partial", "reference")

    @property
    def whole(self) -> ast.expr:
        """The call where there is one, else the name."""
        return self.call or self.node

    @property
    def root(self) -> ast.Name:
        """The first name of the chain."""
        node: ast.expr = self.node
        while isinstance(node, ast.Attribute):
            node = node.value
        assert isinstance(node, ast.Name)
        return node


@fact
def all_uses(project: Project) -> tuple[DeprecatedUse, ...]:
    """Every use in the project, by file and place."""
    modules = modules_with(project, WORDS)
    return tuple(use for module in modules for use in uses_in(project, module))


def uses_in(project: Project, module: ModuleNames) -> list[DeprecatedUse]:
    """Every use in one module, in source order."""
    found = []
    for node in module.nodes:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            api = _api(project, module, node)
            if api is not None:
                found.append(_use(module, node, api))
    return sorted(found, key=lambda use: (use.node.lineno, use.node.col_offset))


def _api(project: Project, module: ModuleNames, node: ast.Name | ast.Attribute) -> str | None:
    if isinstance(node, ast.Attribute) and node.attr not in _LAST:
        return None
    qualified = module.qualified(node)
    if qualified is None or qualified.rpartition(".")[2] not in _LAST or module.is_ambiguous(node):
        return None
    resolved = resolve(project, module, node)
    return resolved if resolved in DEPRECATED else None


def _use(module: ModuleNames, node: ast.Name | ast.Attribute, api: str) -> DeprecatedUse:
    form, call = _form(module, node)
    return DeprecatedUse(module, node, api, form, call, is_gated(module, node))


def _form(module: ModuleNames, node: ast.expr) -> tuple[UseForm, ast.Call | None]:
    parent = module.parents[node]
    if isinstance(parent, ast.Call):
        if parent.func is node:
            return "call", parent
        name = (attribute_chain(parent.func) or [""])[-1]
        if name == "partial" and parent.args and parent.args[0] is node:
            return "partial", parent
    if node in getattr(parent, "decorator_list", ()):
        return "decorator", None
    if isinstance(parent, ast.ClassDef):
        return "base", None
    if _is_annotation(module, node):
        return "annotation", None
    return ("type" if _is_compared(module, node) else "reference"), None


def _is_annotation(module: ModuleNames, node: ast.AST) -> bool:
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.arg | ast.AnnAssign):
            return child is parent.annotation
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            return child is parent.returns
        if isinstance(parent, ast.Subscript) and child is parent.slice:
            name = (attribute_chain(parent.value) or [""])[-1]
            if name in ("Optional", "Union", "Type", "type", "Callable", "ClassVar", "Annotated"):
                return True
        if isinstance(parent, ast.stmt | ast.Call):
            return False
        child = parent
    return False


def _is_compared(module: ModuleNames, node: ast.AST) -> bool:
    """Whether the class itself matters here: an ``isinstance``, a comparison, a key of a table."""
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Compare | ast.MatchClass | ast.ExceptHandler):
            return True
        if isinstance(parent, ast.Subscript):
            return child is parent.slice
        if isinstance(parent, ast.Dict):
            return child in parent.keys
        if isinstance(parent, ast.Attribute | ast.Set):
            return True
        if isinstance(parent, ast.Call):
            name = (attribute_chain(parent.func) or [""])[-1]
            return name in ("isinstance", "issubclass", "hasattr", "getattr", "setattr", "register", "spec")
        if isinstance(parent, ast.stmt):
            return False
        child = parent
    return False


def class_tests(project: Project) -> dict[str, DeprecatedUse]:
    """Kind of API -> a place where objects of the old class are told apart from others: they must keep their class."""
    found: dict[str, DeprecatedUse] = {}
    for use in all_uses(project):
        if use.form == "type" and not use.gated and not _accepts_new(use):
            found.setdefault(use.entry.kind, use)
    return found


def _accepts_new(use: DeprecatedUse) -> bool:
    """``isinstance(x, (torch.cuda.amp.GradScaler, torch.amp.GradScaler))`` takes both."""
    parent = use.module.parents[use.node]
    others = parent.elts if isinstance(parent, ast.Tuple) else []
    return any(use.module.qualified(other) in NEW_CLASSES for other in others)


REPLACING = ("patch", "setattr", "object")
"""How tests put something in the place of a name: mock's ``patch`` and ``patch.object``, pytest's ``setattr``."""


@fact
def replacements_of_torch(project: Project) -> tuple[tuple[ModuleNames, ast.expr], ...]:
    """Places that put something else in the place of the old API: ``torch.cuda.amp.autocast = mine``,
    ``mock.patch("train.autocast", mine)``."""
    modules = [*modules_with(project, WORDS)]
    return tuple((module, node) for module in modules for node in _stores(module))


def _stores(module: ModuleNames) -> Iterator[ast.expr]:
    for name in REPLACING:
        for call in module.calls_by_name.get(name, ()):
            named = (item.value for item in call.args[:2] if isinstance(item, ast.Constant))
            if any(isinstance(item, str) and item.rpartition(".")[2] in _LAST for item in named):
                yield call
    for node in module.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in (*_LAST, "amp"):
            qualified = module.qualified(node) or ""
            if qualified in DEPRECATED or qualified in _MODULES:
                yield node
