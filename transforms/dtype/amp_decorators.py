"""``custom_fwd`` and ``custom_bwd`` on a method: any spelling, the project's own names for them, wrappers by name."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...codemod.python.names import Binding, FunctionNode, ModuleNames, attribute_chain, definition_of, resolve
from ...codemod.source.project import Project

FORWARD, BACKWARD = "custom_fwd", "custom_bwd"
_PACKAGES = ("torch.amp", "torch.cuda.amp", "torch.amp.autocast_mode", "torch.cuda.amp.autocast_mode")
_UNCLEAR = ("autocast", "amp_", "precision", "cast")
_PLAIN = ("staticmethod", "classmethod", "once_differentiable", "no_grad", "torch.no_grad")
_MAX_HOPS = 3


@dataclass(frozen=True, slots=True, eq=False)
class AmpDecorator:
    """What stands above a method and switches autocast for it."""

    kind: str
    """``custom_fwd``, ``custom_bwd``, or ``other`` for a decorator that may do the same in its own way."""
    node: ast.expr
    cast_inputs: ast.expr | None = None
    understood: bool = True
    """False for a name of another package, whose arguments are not known."""

    @property
    def keeps_autocast(self) -> bool:
        """Whether the method runs under autocast as it was: ``custom_fwd`` without ``cast_inputs``."""
        return self.kind == FORWARD and self.understood and self.cast_inputs is None


def amp_decorator(project: Project, module: ModuleNames, function: FunctionNode) -> AmpDecorator | None:
    """The decorator of a method that has to do with autocast, or None."""
    for node in function.decorator_list:
        found = _named(project, module, node, node, 0) or _by_name(node)
        if found is not None:
            return found
    return None


def _named(project: Project, module: ModuleNames, node: ast.expr, whole: ast.expr, hops: int) -> AmpDecorator | None:
    """The decorator that an expression makes: torch's own, called or not, partial or under a name of the project."""
    if isinstance(node, ast.Call):
        return _made(project, module, node, whole, hops)
    resolved = resolve(project, module, node) or ""
    package, _, last = resolved.rpartition(".")
    if package in _PACKAGES and last in (FORWARD, BACKWARD):
        return AmpDecorator(last, whole)
    if hops >= _MAX_HOPS or attribute_chain(node) is None:
        return None
    for other, binding in _bindings(project, module, node):
        found = _named(project, other, binding.value, whole, hops + 1) if binding.value is not None else None
        if found is not None:
            return found
    return None


def _made(project: Project, module: ModuleNames, call: ast.Call, whole: ast.expr, hops: int) -> AmpDecorator | None:
    func = call.func
    if (attribute_chain(func) or [""])[-1] == "partial" and call.args:
        func = call.args[0]
    found = _named(project, module, func, whole, hops + 1)
    if found is None:
        return None
    cast = next((item.value for item in call.keywords if item.arg == "cast_inputs"), found.cast_inputs)
    clear = all(item.arg is not None for item in call.keywords)
    return AmpDecorator(found.kind, whole, cast, found.understood and clear)


def _bindings(project: Project, module: ModuleNames, node: ast.expr) -> list[tuple[ModuleNames, Binding]]:
    chain = attribute_chain(node) or []
    own = module.scope_of(node).lookup(chain[0]) if len(chain) == 1 else []
    if own and all(item.kind == "assign" for item in own):
        return [(module, item) for item in own]
    defined = definition_of(project, module, node)
    if defined is None:
        return []
    other, name = defined
    return [(other, item) for item in other.defined(name) if item.kind == "assign"]


def _by_name(node: ast.expr) -> AmpDecorator | None:
    """A decorator of another package, or one that the project defines as a function, judged by what it is called."""
    called = node.func if isinstance(node, ast.Call) else node
    name = ".".join(attribute_chain(called) or [""])
    last = name.rpartition(".")[2].lower()
    for kind in (FORWARD, BACKWARD):
        if kind in last:
            return AmpDecorator(kind, node, understood=False)
    if name in _PLAIN or not any(word in last for word in _UNCLEAR):
        return None
    return AmpDecorator("other", node, understood=False)
