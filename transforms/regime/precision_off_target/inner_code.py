"""What a region runs inside the modules that it calls, whichever objects these are: forward passes, hooks, backward.

By name, and rather too far than not far enough, as where results go.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from ....codemod.flow.classes import ProjectClass, is_torch_module
from ....codemod.purpose.files import purpose_of
from ....codemod.purpose.imports import connected_modules, reached_from
from ....codemod.python.functions import all_bases, named_function
from ....codemod.python.names import FunctionNode, ModuleNames, modules_with, parameters_of, resolve
from ....codemod.python.scopes import last_name
from ....codemod.source.project import Project
from .readers_of_results import chain

Start: TypeAlias = "tuple[ModuleNames, FunctionNode | ast.Lambda, tuple[str, ...]]"
"""A function, and its names that tensors of the region come in by."""
PASSES_OF_CODE = ("forward", "__call__", "backward", "setup_context")
PLAIN = ("int", "float", "bool", "str")
HOOKS = ("register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_hook")
MAX_MODULES = 200


@dataclass(frozen=True, slots=True, eq=False)
class Inner:
    """The functions that a region runs, and the methods that it may run where an object of unknown class is called."""

    starts: tuple[Start, ...]
    named: dict[str, tuple[Start, ...]]

    def methods(self, call: ast.Call) -> tuple[Start, ...]:
        """What a call of an object may run of which nobody knows the class."""
        return self.named.get(call.func.attr, ()) if isinstance(call.func, ast.Attribute) else ()


def inner_code(project: Project, module: ModuleNames, block: Iterable[ast.AST]) -> Inner:
    """What the statements of a region may run of the classes that the programs around ``module`` have at hand."""
    passes, named, hooks = project.memo(_code_around, module)
    called = (last_name(node.func) or "" for item in block for node in ast.walk(item) if isinstance(node, ast.Call))
    return Inner((*passes, *hooks, *(start for name in dict.fromkeys(called) for start in named.get(name, ()))), named)


def _code_around(
    project: Project, module: ModuleNames
) -> tuple[tuple[Start, ...], dict[str, tuple[Start, ...]], tuple[Start, ...]]:
    modules = reached_from(project, connected_modules(project, module), MAX_MODULES)
    modules = tuple(item for item in modules if not purpose_of(item.path).is_left_alone)
    methods = [(item, node) for item in modules for owner in owners(project, item) for node in _methods(owner)]
    named: dict[str, list[Start]] = defaultdict(list)
    for item, node in methods:
        named[node.name].append((item, node, _given(node)))
    passes = [start for name in PASSES_OF_CODE for start in named.pop(name, ())]
    named.pop("__init__", None)
    hooks = (start for item in modules for start in _hooks(project, item))
    return tuple(passes), {name: tuple(starts) for name, starts in named.items()}, tuple(hooks)


def owners(project: Project, module: ModuleNames) -> Iterator[ast.ClassDef]:
    """The modules of layers and the autograd Functions of a file."""
    for owner in module.of_type(ast.ClassDef):
        scope = module.scopes[owner]
        bases = [resolve(project, holder, base) or "" for holder, base in all_bases(project, module, scope)]
        is_function = any(base.endswith("autograd.Function") for base in bases)
        if is_function or is_torch_module(project, ProjectClass(module, scope)):
            yield owner


def _methods(owner: ast.ClassDef) -> Iterator[FunctionNode]:
    yield from (item for item in owner.body if isinstance(item, FunctionNode))


def _hooks(project: Project, module: ModuleNames) -> Iterator[Start]:
    for call in (call for name in HOOKS for call in module.calls_by_name.get(name, ()) if call.args):
        given = call.args[0].func if isinstance(call.args[0], ast.Call) else call.args[0]
        target = named_function(project, module, given, module.scope_of(call))
        holder, function = (target.module, target.node) if target is not None else (module, given)
        inner = [node for node in ast.walk(function) if isinstance(node, FunctionNode | ast.Lambda)]
        yield from ((holder, node, _given(node)) for node in inner)


def _given(function: FunctionNode | ast.Lambda) -> tuple[str, ...]:
    """The parameters that may hold tensors, and what a backward pass finds in its context."""
    parameters = [item for item in parameters_of(function) if item.arg not in ("self", "cls", "ctx")]
    names = [item.arg for item in parameters if item.annotation is None or last_name(item.annotation) not in PLAIN]
    is_backward = getattr(function, "name", "") == "backward" and bool(function.args.args)
    context = function.args.args[0].arg if is_backward else ""
    kept = {chain(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)} if context else set()
    return (*names, *sorted(name for name in kept if name.startswith(f"{context}.")))


def loads_of(project: Project, name: str) -> Iterator[tuple[ModuleNames, ast.Attribute]]:
    for module in modules_with(project, (name,)):
        yield from ((module, load) for load in module.attribute_loads.get(name, ()))
