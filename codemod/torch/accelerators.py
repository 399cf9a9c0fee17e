"""Objects that run the training loop in a precision of their own: accelerate's Accelerator, Lightning's Fabric."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ..python.bindings import position_in_targets, self_stores
from ..python.bound import is_bound_at
from ..python.callers import callers_of
from ..python.functions import FunctionTarget, called_function, returns_of
from ..python.names import Binding, ModuleNames, Scope, resolve
from ..source.project import Project
from .dtype_values import constants_of
from .dtypes import BF16, UNKNOWN, Constant, as_dtype

APIS = {
    "accelerate.Accelerator": "mixed_precision",
    "accelerate.accelerator.Accelerator": "mixed_precision",
    "lightning.Fabric": "precision",
    "lightning.fabric.Fabric": "precision",
    "lightning_fabric.Fabric": "precision",
}
"""The classes, each with the argument that names the precision; their objects have a method ``autocast``."""

TEXT_WORDS = ("ccelerat", "abric")
"""A file without these parts of words has no such object."""

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
MAX_STEPS = 5

Birth = tuple[ModuleNames, ast.Call]


@dataclass(frozen=True, slots=True, eq=False)
class Accelerator:
    """An object of APIS as it is seen from one place."""

    text: str
    """How that place names it: ``accelerator``, ``self.accelerator``."""
    births: tuple[Birth, ...]
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
                    yield from _made(project, module, name, bindings)
        scope = scope.parent


def _made(project: Project, module: ModuleNames, name: str, bindings: list[Binding]) -> Iterator[Accelerator]:
    births = tuple(birth for binding in bindings for birth in _births(project, module, binding, 0))
    if births or (name in NAMES and _is_used_as_one(module, bindings[0].scope, name)):
        yield _accelerator(project, name, births)


def _may_be(name: str, bindings: list[Binding]) -> bool:
    """Whether it is worth looking: made by a call, or called like one."""
    return any(part in name.lower() for part in PARTS) or any(
        isinstance(item.value, ast.Call | ast.IfExp) for item in bindings
    )


def _is_used_as_one(module: ModuleNames, scope: Scope, name: str) -> bool:
    for load in module.name_loads.get(name, []):
        parent = module.parents[load]
        if isinstance(parent, ast.Attribute) and parent.attr in USES and _is_inside(module, load, scope):
            return True
    return False


def _is_inside(module: ModuleNames, node: ast.AST, scope: Scope) -> bool:
    return any(parent is scope.node for parent in module.ancestors(node))


def _attributes(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Accelerator]:
    owner = module.scope_of(node).enclosing_class
    if owner is None or not module.scope_of(node).lookup("self"):
        return
    for name in NAMES:
        stores = self_stores(module, owner, name)
        births = tuple(
            birth
            for value, statement in stores
            if value is not None
            for birth in _births_of_value(project, module, value, module.scope_of(statement), 0)
        )
        if births:
            yield _accelerator(project, f"self.{name}", births)


def _births(project: Project, module: ModuleNames, binding: Binding, depth: int) -> Iterator[Birth]:
    """The calls of APIS behind a binding: direct, through the project's own functions, or passed by callers."""
    if depth > MAX_STEPS:
        return
    if binding.value is not None:
        yield from _births_of_value(project, module, binding.value, binding.scope, depth)
    elif binding.kind == "unpacked" and isinstance(binding.node, ast.Assign):
        position = position_in_targets(binding.node, binding.name)
        call = binding.node.value
        target = called_function(project, module, call) if isinstance(call, ast.Call) else None
        if target is not None and position is not None:
            yield from _births_returned(project, target, position, depth)
    elif binding.kind == "parameter" and isinstance(binding.scope.node, ast.FunctionDef | ast.AsyncFunctionDef):
        for site in callers_of(project, module, binding.scope.node).sites:
            passed = site.target.arguments(site.call).get(binding.name)
            if passed is not None:
                yield from _births_of_value(project, site.module, passed, site.module.scope_of(site.call), depth + 1)


def _births_of_value(
    project: Project, module: ModuleNames, value: ast.expr, scope: Scope, depth: int
) -> Iterator[Birth]:
    if depth > MAX_STEPS:
        return
    if isinstance(value, ast.IfExp):
        for branch in (value.body, value.orelse):
            yield from _births_of_value(project, module, branch, scope, depth + 1)
    elif isinstance(value, ast.Name):
        for binding in scope.lookup(value.id):
            yield from _births(project, module, binding, depth + 1)
    elif isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == "self":
        owner = scope.enclosing_class
        for stored, statement in self_stores(module, owner, value.attr) if owner is not None else ():
            if stored is not None:
                yield from _births_of_value(project, module, stored, module.scope_of(statement), depth + 1)
    elif isinstance(value, ast.Call):
        if resolve(project, module, value.func) in APIS:
            yield module, value
            return
        target = called_function(project, module, value)
        if target is not None and target.node.name != "__init__":
            yield from _births_returned(project, target, None, depth)


def _births_returned(project: Project, target: FunctionTarget, position: int | None, depth: int) -> Iterator[Birth]:
    for returned in returns_of(target.node):
        value = returned.value
        if position is not None:
            value = value.elts[position] if isinstance(value, ast.Tuple) and position < len(value.elts) else None
        if value is not None:
            scope = target.module.scope_of(returned)
            yield from _births_of_value(project, target.module, value, scope, depth + 1)


def _accelerator(project: Project, text: str, births: tuple[Birth, ...]) -> Accelerator:
    values: set[Constant] = set()
    asked = ""
    for module, call in births:
        key = APIS[resolve(project, module, call.func) or ""]
        given = [item for item in call.keywords if item.arg == key]
        for item in given:
            asked = f"{key}={ast.unparse(item.value)}"
            values |= {as_dtype(value) for value in constants_of(project, module, item.value)}
        if not given and any(item.arg is None for item in call.keywords):
            values.add(UNKNOWN)
    return Accelerator(text, births, frozenset(values), asked)
