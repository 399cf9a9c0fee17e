"""Objects that run the training loop in a precision of their own: accelerate's Accelerator, Lightning's Fabric."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from ..python.bound import is_bound_at
from ..python.creations import Creation, creations_of, known_creations
from ..python.functions import attribute_bindings
from ..python.names import Binding, ModuleNames, Scope, resolve
from ..source.project import Project
from .api import ACCELERATOR, PRECISION_KEYWORDS
from .dtype_values import constants_of
from .dtypes import BF16, UNKNOWN, Constant, as_dtype

TEXT_WORDS = ("ccelerat", "abric")
"""A file without these parts of words has no such object."""

BY_ACCELERATE = PRECISION_KEYWORDS[ACCELERATOR[0]]
NAMES = ("accelerator", "accel", "fabric")
PARTS = ("acc", "fabric")
"""What is in the names of parameters that may hold one."""
USES = {
    "accumulate",
    "backward",
    "gather",
    "gather_for_metrics",
    "is_local_main_process",
    "is_main_process",
    "mixed_precision",
    "prepare",
    "sync_gradients",
    "trackers",
    "unwrap_model",
    "wait_for_everyone",
}
"""Attributes that tell accelerate's object from others of that name (Lightning's hardware accelerator)."""


@dataclass(frozen=True, slots=True, eq=False)
class Accelerator:
    """An object of `PRECISION_KEYWORDS` as it is seen from one place."""

    text: str
    """How that place names it: ``accelerator``, ``self.accelerator``."""
    made_by: tuple[Creation, ...]
    """The calls that may make it; empty where only its name and use tell what it is."""
    values: frozenset[Constant]
    """The precisions it is asked for, UNKNOWN among them where the user chooses; empty when it is not asked for any
    and the launcher decides."""
    asked: str
    """The argument that asks for a precision, as source text (``mixed_precision=args.precision``); may be empty."""

    @property
    def may_run_bf16(self) -> bool:
        """Whether its own argument names bfloat16 or leaves the choice to the user."""
        return BF16 in self.values or UNKNOWN in self.values


def accelerator_at(project: Project, module: ModuleNames, node: ast.AST) -> Accelerator | None:
    """The accelerator that code at ``node`` can use; None when there is none, or more than one."""
    if not any(word in module.document.text for word in TEXT_WORDS):
        return None
    found = list(_variables(project, module, node)) or list(_attributes(project, module, node))
    return found[0] if len(found) == 1 else None


def _variables(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Accelerator]:
    seen: set[str] = set()
    scope: Scope | None = module.scope_of(node)
    while scope is not None:
        if not isinstance(scope.node, ast.ClassDef):
            for name, bindings in scope.bindings.items():
                if name not in seen and _may_be(name, bindings) and is_bound_at(module, name, node):
                    seen.add(name)
                    yield from _of_variable(project, module, name, bindings)
        scope = scope.parent


def _of_variable(project: Project, module: ModuleNames, name: str, bindings: list[Binding]) -> Iterator[Accelerator]:
    made = tuple(item for binding in bindings for item in _made(project, module, binding))
    if made or (name in NAMES and _is_used_as_one(module, bindings[0].scope, name)):
        yield _accelerator(project, name, made)


def _may_be(name: str, bindings: list[Binding]) -> bool:
    """Whether it is worth looking: made by a call, or called like one."""
    return any(part in name.lower() for part in PARTS) or any(
        isinstance(item.value, ast.Call | ast.IfExp) for item in bindings
    )


def _is_used_as_one(module: ModuleNames, scope: Scope, name: str) -> bool:
    used = (load for load in module.name_loads.get(name, []) if getattr(module.parents[load], "attr", "") in USES)
    return any(scope.node in module.ancestors(load) for load in used)


def _attributes(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Accelerator]:
    owner = module.scope_of(node).enclosing_class
    if owner is None or not module.scope_of(node).lookup("self"):
        return
    for name in NAMES:
        holder, stores = attribute_bindings(project, module, owner, name)
        made = tuple(item for binding in stores for item in _made(project, holder, binding))
        if made:
            yield _accelerator(project, f"self.{name}", made)


def asked_of_accelerators(
    project: Project, module: ModuleNames, node: ast.expr
) -> Iterator[tuple[ModuleNames, ast.expr]]:
    """What ``accelerator.mixed_precision`` reads back: what the calls that make the Accelerator are given for it."""
    made_by = creations_of(project, module, node.value) if is_read_back(node) else ()
    for made in (
        made_by if all(resolve(project, item.module, item.call.func) in ACCELERATOR for item in made_by) else ()
    ):
        yield from ((made.module, item.value) for item in made.call.keywords if item.arg == BY_ACCELERATE)


def is_read_back(node: ast.expr) -> TypeGuard[ast.Attribute]:
    """Whether this may read the precision of an Accelerator."""
    return isinstance(node, ast.Attribute) and node.attr == BY_ACCELERATE


def _made(project: Project, module: ModuleNames, node: ast.expr | Binding) -> tuple[Creation, ...]:
    """The calls of such classes that are known to make what ``node`` is."""
    found = known_creations(project, module, node)
    return tuple(item for item in found if resolve(project, item.module, item.call.func) in PRECISION_KEYWORDS)


def _accelerator(project: Project, text: str, made_by: tuple[Creation, ...]) -> Accelerator:
    values: set[Constant] = set()
    asked = ""
    for made in made_by:
        key = PRECISION_KEYWORDS[resolve(project, made.module, made.call.func) or ""]
        given = [item for item in made.call.keywords if item.arg == key]
        for item in given:
            asked = f"{key}={ast.unparse(item.value)}"
            values |= {as_dtype(value) for value in constants_of(project, made.module, item.value)}
        if not given and any(item.arg is None for item in made.call.keywords):
            values.add(UNKNOWN)
    return Accelerator(text, made_by, frozenset(values), asked)
