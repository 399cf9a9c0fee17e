"""Whether code runs inside an autocast region: around it in its own function, or around a call that leads to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.purpose.files import is_test
from ...codemod.python.callers import callers_of
from ...codemod.python.functions import called_function, class_of, returns_of
from ...codemod.python.names import FunctionNode, ModuleNames, attribute_chain, names_of
from ...codemod.source.project import Project
from ...codemod.torch.accelerators import accelerator_at
from ...codemod.torch.autocast import Autocast, autocasts_in
from ...codemod.torch.dtypes import BF16, FP16, UNKNOWN, as_dtype
from .lightning_steps import lightning_precision
from .object_calls import calls_of_object

MAX_HOPS = 5
MAX_BIRTHS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Inside:
    """A way into the code under autocast."""

    region: Autocast | None
    """None for a trainer that opens the region itself."""
    places: tuple[Place, ...]
    """The region first, then the calls that lead to the code."""
    direct: bool
    """Whether the region stands in the function of the code."""


ACCELERATED = frozenset({None, "cuda", "xpu"})
"""The devices that share CUDA's list of operations; one that is chosen at run time counts as CUDA."""


class PathFinder:
    """Finds regions around code; one per project, through ``project.fact(PathFinder)``."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[ast.AST, Inside | None] = {}

    def inside(self, module: ModuleNames, node: ast.AST, hops: int = 0) -> Inside | None:
        """How ``node`` comes to run under autocast; None when no way is found, or an island is around it."""
        for parent in module.ancestors(node):
            found = self._opened(module, parent, node)
            if found == "island":
                return None
            if isinstance(found, Autocast):
                return Inside(found, (_place(module, found.node, "the autocast region"),), True)
            if isinstance(found, ast.expr):
                return Inside(None, (_place(module, found, "accelerate opens its autocast region here"),), True)
            if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
                return self._of_function(module, parent, hops)
        return None

    def _opened(self, module: ModuleNames, parent: ast.AST, node: ast.AST) -> Autocast | ast.expr | str | None:
        """The region that ``parent`` opens, or ``island`` where it switches autocast off; None for neither."""
        contexts: list[ast.expr] = []
        if isinstance(parent, ast.With | ast.AsyncWith):
            contexts = [item.context_expr for item in reversed(parent.items)]
            if any(node is context or node in ast.walk(context) for context in contexts):
                return None
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            contexts = parent.decorator_list
        for context in contexts:
            found = self._region(module, context)
            if found is not None:
                return found
        return None

    def _region(self, module: ModuleNames, context: ast.expr) -> Autocast | ast.expr | str | None:
        regions = list(self._regions(module, context, 0))
        if not regions:
            called = context.func if isinstance(context, ast.Call) else context
            if "autocast" not in (attribute_chain(called) or [""])[-1]:
                return None
            return context if self._is_accelerated(module, called) else "island"
        if any(item.switched_off or item.device not in ACCELERATED for item in regions):
            return "island"
        return regions[0]

    def _is_accelerated(self, module: ModuleNames, called: ast.expr) -> bool:
        """``accelerator.autocast()`` of an Accelerator that is asked for a 16-bit type, or lets the user choose."""
        if not isinstance(called, ast.Attribute) or called.attr != "autocast":
            return False
        found = accelerator_at(self._project, module, called)
        if found is None or found.text != ast.unparse(called.value):
            return False
        return bool({as_dtype(value) for value in found.values} & {BF16, FP16, UNKNOWN})

    def _regions(self, module: ModuleNames, context: ast.expr, hops: int) -> Iterator[Autocast]:
        """The autocasts that a context manager can be."""
        nodes = set(ast.walk(context))
        found = [item for item in autocasts_in(self._project, module) if item.node in nodes]
        if found or hops > 2:
            yield from found
            return
        called = context.func if isinstance(context, ast.Call) else context
        chain = attribute_chain(called)
        if chain is None:
            return
        for value in _values(module, called, chain):
            yield from self._regions(module, value, hops + 1)
        target = called_function(self._project, module, context) if isinstance(context, ast.Call) else None
        if target is None:
            return
        for returned in returns_of(target.node):
            if returned.value is not None:
                yield from self._regions(target.module, returned.value, hops + 1)
        for expression in _around_yields(target.module, target.node):
            yield from self._regions(target.module, expression, hops + 1)

    def _of_function(self, module: ModuleNames, function: FunctionNode, hops: int) -> Inside | None:
        if hops >= MAX_HOPS:
            return None
        if function not in self._known:
            self._known[function] = None  # a recursive call finds this
            self._known[function] = self._callers(module, function, hops)
        return self._known[function]

    def _callers(self, module: ModuleNames, function: FunctionNode, hops: int) -> Inside | None:
        trainer = lightning_precision(self._project, module, function)
        if trainer is not None:
            return Inside(None, trainer, False)
        for other, call in self._sites(module, function):
            if is_test(other.document.path):
                continue
            found = self.inside(other, call, hops + 1)
            if found is not None:
                name = _spoken_name(module, function)
                return Inside(found.region, (*found.places, _place(other, call, f"{name} is called here")), False)
        return None

    def _sites(self, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[ModuleNames, ast.Call]]:
        owner = module.scopes[function].parent
        if function.name in ("forward", "__call__") and owner is not None and isinstance(owner.node, ast.ClassDef):
            for other, birth in self._births(module, owner.node):
                yield from ((use.module, use.call) for use in calls_of_object(self._project, other, birth))
            return
        yield from ((site.module, site.call) for site in callers_of(self._project, module, function).sites)

    def _births(self, module: ModuleNames, owner: ast.ClassDef) -> Iterator[tuple[ModuleNames, ast.Call]]:
        """The calls that make an object of the class."""
        count = 0
        documents = self._project.python_documents((owner.name,), where=lambda text: f"{owner.name}(" in text)
        for document in documents:
            other = names_of(self._project, document)
            for call in other.calls_by_name.get(owner.name, []):
                found = class_of(self._project, other, call.func)
                if found is not None and found[1].node is owner and count < MAX_BIRTHS:
                    count += 1
                    yield other, call


def _spoken_name(module: ModuleNames, function: FunctionNode) -> str:
    """What a call of the function names: for ``forward`` and its like the class."""
    owner = module.scopes[function].parent
    of_object = function.name in ("forward", "__call__", "__init__")
    return (
        owner.node.name if of_object and owner is not None and isinstance(owner.node, ast.ClassDef) else function.name
    )


def _around_yields(module: ModuleNames, function: FunctionNode) -> Iterator[ast.expr]:
    """The contexts that a generator-based context manager is inside of while its caller's block runs."""
    for node in ast.walk(function):
        if isinstance(node, ast.Yield):
            for parent in module.ancestors(node):
                if parent is function:
                    break
                if isinstance(parent, ast.With | ast.AsyncWith):
                    yield from (item.context_expr for item in parent.items)


def _values(module: ModuleNames, node: ast.expr, chain: list[str]) -> list[ast.expr]:
    """What a variable or attribute of ``self`` is assigned."""
    if len(chain) == 1:
        return [item.value for item in module.scope_of(node).lookup(chain[0]) if item.value is not None]
    owner = module.scope_of(node).enclosing_class
    if len(chain) == 2 and chain[0] == "self" and owner is not None:
        stores = module.attribute_stores.get(chain[1], [])
        return [value for receiver, value, _ in stores if receiver == ["self"] and value is not None]
    return []


def _place(module: ModuleNames, node: ast.AST, message: str) -> Place:
    return Place(module.document.path, module.document.span(node), message)
