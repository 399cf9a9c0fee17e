"""Whether a function is for inference alone: nothing that trains is seen to call it, itself or by way of others."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.purpose.files import is_test
from ....codemod.purpose.proved_reach import CALLED_BY_OTHERS, MAX_HOPS
from ....codemod.purpose.steps import is_named_validation
from ....codemod.purpose.training import RUNS_STEP, STEPS, fits_in, only_infers, steps_in
from ....codemod.python.functions import bases_of
from ....codemod.python.names import FunctionNode, ModuleNames, names_of
from ....codemod.python.reach import MAX_PARTS, reached
from ....codemod.source.project import Project

HOOKS = ("on_", "training_", "validation_", "test_", "evaluat", "prediction_", "configure_", "compute_")
"""How the names of methods begin that a trainer calls on what is made for it."""


def is_for_inference(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether the function around ``node`` is one that only inference is seen to call, or nobody."""
    function = module.scope_of(node).function.node
    return isinstance(function, FunctionNode) and not project.memo(_may_train, (module, function, ()))


def _may_train(project: Project, asked: tuple[ModuleNames, FunctionNode, tuple[ast.AST, ...]]) -> bool:
    module, function, way = asked
    if len(way) >= MAX_HOPS or is_named_validation(function.name) or _is_called_by_others(module, function):
        return True
    if any(module.calls_inside.get((function, name)) for name in RUNS_STEP):
        return True
    for document in project.python_documents((function.name,)):
        other = names_of(project, document) if not is_test(document.path) else None
        if other is None or not project.memo(_leads_to_a_step, other):
            continue
        if any(item.asname and item.name == function.name for item in other.of_type(ast.alias)):
            return True
        for load in (*other.name_loads.get(function.name, ()), *other.attribute_loads.get(function.name, ())):
            above = other.scope_of(load).function.node
            if above in (function, *way):
                continue
            if not isinstance(above, FunctionNode) or project.memo(_may_train, (other, above, (*way, function))):
                return True
    return False


def _leads_to_a_step(project: Project, module: ModuleNames) -> bool:
    """Whether a file, or what a program that begins with it uses, may call a training step or fit a model."""
    if only_infers(project, module.document.path):
        return False
    found = reached(project, [(module, module.tree)])
    return len(found.parts) >= MAX_PARTS or any(
        found.holds(other, call) for other in found.modules for call in _stepping(other)
    )


def _stepping(module: ModuleNames) -> Iterator[ast.AST]:
    """The calls that train; those of a step that a trainer calls are made only where something is fitted."""
    yield from (call for name in sorted(STEPS) for call in module.calls_by_name.get(name, ()))
    for call in (*fits_in(module), *(node for node in steps_in(module) if isinstance(node, ast.Call))):
        if getattr(module.scope_of(call).function.node, "name", "") not in STEPS:
            yield call


def _is_called_by_others(module: ModuleNames, function: FunctionNode) -> bool:
    """Whether a library calls a function under a name that it knows, or finds it by its decorator."""
    owner = module.scopes[function].enclosing_class
    if any("torch" not in ast.unparse(item) and "no_grad" not in ast.unparse(item) for item in function.decorator_list):
        return True
    is_method = owner is not None and (bool(bases_of(owner)) or function.name in CALLED_BY_OTHERS)
    return is_method and (function.name in CALLED_BY_OTHERS or function.name.startswith(("__", *HOOKS)))
