"""Settings whose values pick a dtype in the project's own code, and what each value means there.

``{"fp16": torch.float16, "bf16": torch.bfloat16}[cfg.dtype]``, ``if args.amp == "bf16": dtype = torch.bfloat16``,
``getattr(torch, args.dtype)``: only values that such code accepts can be written into a configuration.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ...python.bindings import only_value
from ...python.names import ModuleNames, Scope, names_of
from ...python.paths import name_parts
from ...source.project import Project
from ...torch.dtypes import BF16, FP16, FP32, Constant, Dtype, Given, Scenario, as_dtype
from .links import sources
from .source import Source

MAX_HOPS = 4
FULL = ("no", "none", "off", "32", "32-true")
"""Other words for float32."""
DTYPE_WORDS = ("float16", "bfloat16", "dtype", "fp16", "bf16", "half", "precision", "autocast")


SPEAKING = frozenset({"amp", "fp16", "bf16", "half", "mixed", "precision", "dtype", "bfloat16", "float16", "autocast"})


@dataclass(frozen=True, slots=True, eq=False)
class Knob:
    """A setting, the expression that reads it, and the dtype that each of its values stands for."""

    module: ModuleNames
    node: ast.expr
    meanings: tuple[tuple[Constant, Dtype], ...]

    @property
    def text(self) -> str:
        return ast.unparse(self.node)

    def literal(self, dtype: Dtype, like: Constant = None) -> Constant | None:
        """The value that picks ``dtype``, spelled as ``like`` is where the code knows it; None: it knows none."""
        known = [value for value, meant in self.meanings if meant == dtype]
        alike = [value for value in known if _spelling(value) == _spelling(like)]
        return next(iter([*alike, *known]), None)

    def meaning(self, value: Constant) -> Dtype | None:
        """The dtype that ``value`` picks; a word for float32 that no branch names counts as one."""
        known = next((meant for literal, meant in self.meanings if literal == value), None)
        if known is not None or isinstance(value, bool):
            return known
        guessed = as_dtype(value)
        if isinstance(guessed, Dtype):
            return guessed
        return FP32 if value in FULL else None

    def sources(self, project: Project) -> tuple[Source, ...]:
        """Where the setting gets its values."""
        return sources(project, self.module, self.node)


def _spelling(value: Constant) -> str:
    """How a value names a dtype: ``fp16`` and ``bf16`` are alike, ``float16`` and ``bfloat16``."""
    if not isinstance(value, str):
        return type(value).__name__
    return value.lower().replace("bfloat", "float").replace("bf16", "fp16")


def knobs_of(
    project: Project, module: ModuleNames, scenarios: Iterable[Scenario], dtype_node: ast.expr | None
) -> tuple[Knob, ...]:
    """The settings that decide between the values of ``scenarios``; ``dtype_node`` may name an attribute of torch."""
    found: dict[str, _Growing] = {}
    for scenario in scenarios:
        if isinstance(scenario.value, Dtype):
            for given in scenario.given:
                _note(project, module, found, given, scenario.value)
    key = _attribute_of_torch(module, dtype_node, 0) if dtype_node is not None else None
    if key is not None:
        names = tuple((dtype.name, dtype) for dtype in (BF16, FP16, FP32))
        found[ast.unparse(key)] = _Growing(module, key, dict(names))
    knobs = (Knob(item.module, item.node, tuple(item.meanings.items())) for item in found.values())
    return tuple(knob for knob in knobs if knob.meanings and _speaks(knob))


def _speaks(knob: Knob) -> bool:
    """Whether the setting is about precision; ``device.type == "cuda"`` also decides about dtypes, and is not."""
    if any(isinstance(as_dtype(value), Dtype) for value, _ in knob.meanings):
        return True
    return not name_parts(knob.node).isdisjoint(SPEAKING)


@dataclass(slots=True)
class _Growing:
    module: ModuleNames
    node: ast.expr
    meanings: dict[Constant, Dtype]


def _note(project: Project, module: ModuleNames, found: dict[str, _Growing], given: Given, dtype: Dtype) -> None:
    if not isinstance(given.node, ast.Name | ast.Attribute | ast.Subscript | ast.Call):
        return
    owner = _module_of(project, module, given.scope)
    if owner is None:
        return
    growing = found.setdefault(given.text, _Growing(owner, given.node, {}))
    for value in _values(given):
        if growing.meanings.setdefault(value, dtype) != dtype:
            growing.meanings.clear()  # another setting decides as well
            return


def _values(given: Given) -> Iterator[Constant]:
    """The literals that ``given`` says the setting has; of a truth value that it has not, the other one."""
    for value in given.values:
        if isinstance(value, bool):
            yield value if given.equal else not value
        elif isinstance(value, str) and given.equal:
            yield value


def _attribute_of_torch(module: ModuleNames, node: ast.expr, hops: int) -> ast.expr | None:
    """``x`` where ``node`` is ``getattr(torch, x)``, or a variable or attribute that only ever is that."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        if len(node.args) == 2 and module.qualified(node.args[0]) == "torch":
            return node.args[1] if isinstance(node.args[1], ast.Name | ast.Attribute | ast.Subscript) else None
        return None
    if hops >= MAX_HOPS:
        return None
    only = only_value(module, node)
    return _attribute_of_torch(module, only, hops + 1) if only is not None else None


def _module_of(project: Project, near: ModuleNames, scope: Scope) -> ModuleNames | None:
    """The module that ``scope`` belongs to."""
    while scope.parent is not None:
        scope = scope.parent
    if scope.node is near.tree:
        return near
    return project.fact(_by_tree).get(scope.node)


def _by_tree(project: Project) -> dict[ast.AST, ModuleNames]:
    documents = project.python_documents(DTYPE_WORDS)
    return {document.tree: names_of(project, document) for document in documents}
