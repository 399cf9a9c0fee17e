"""How an autograd Function is used: where it is applied, and whether it calls compiled code."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...codemod.purpose.entered import regions_around
from ...codemod.purpose.files import is_test
from ...codemod.python.functions import called_function
from ...codemod.python.names import ModuleNames, attribute_chain, names_of, resolve
from ...codemod.source.project import Project
from ...codemod.torch.api import NARROWING
from ...codemod.torch.dtype_values import constants_of
from .custom_functions import CustomFunction, custom_functions

_PLAIN_CALLS = frozenset(
    {"int", "float", "len", "range", "max", "min", "abs", "isinstance", "tuple", "list", "zip", "enumerate", "getattr",
     "hasattr", "any", "all", "sum", "print", "super", "ValueError", "RuntimeError", "AssertionError",
     "NotImplementedError"}
)  # fmt: skip


def is_applied_under_autocast(project: Project, function: CustomFunction) -> bool:
    """Whether the Function is applied outside of tests and of regions that switch autocast off, without casts."""
    found = applications(project, function)
    return any(not _is_given_casts(module, node) and not _is_off(project, module, node) for module, node in found)


def _is_given_casts(module: ModuleNames, node: ast.Attribute) -> bool:
    """``Name.apply(x.to(dtype), ...)``: the caller sees to the dtypes."""
    call = module.parents.get(node)
    given = call.args if isinstance(call, ast.Call) and call.func is node else []
    return any(isinstance(item, ast.Call) and (attribute_chain(item.func) or [""])[-1] in NARROWING for item in given)


def applications(project: Project, function: CustomFunction) -> Sequence[tuple[ModuleNames, ast.Attribute]]:
    """Every ``Name.apply`` of the Function outside of tests, called or handed on."""
    return project.fact(_all_applications).get(function.name, ())


def _all_applications(project: Project) -> dict[str, list[tuple[ModuleNames, ast.Attribute]]]:
    names = {function.name for function in custom_functions(project)}
    found: dict[str, list[tuple[ModuleNames, ast.Attribute]]] = {}
    documents = project.python_documents((".apply",), [f"{name}.apply" for name in names])
    for document in documents if names else ():
        if is_test(document.path):
            continue
        module = names_of(project, document)
        for node in module.attribute_loads.get("apply", []):
            chain = attribute_chain(node)
            if chain is not None and len(chain) >= 2 and chain[-2] in names:
                found.setdefault(chain[-2], []).append((module, node))
    return found


def constant_inputs(project: Project, function: CustomFunction) -> set[str]:
    """The inputs that are numbers at every call of ``apply`` that is found: written down, or bound to such."""
    calls = []
    for module, node in applications(project, function):
        call = module.parents.get(node)
        if isinstance(call, ast.Call) and call.func is node:
            calls.append((module, call))
    found = set()
    for index, parameter in enumerate(function.inputs):
        given = [(module, call.args[index]) for module, call in calls if index < len(call.args)]
        if given and all(_is_number(project, module, item) for module, item in given):
            found.add(parameter.arg)
    return found


def _is_number(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    found = constants_of(project, module, node)
    return bool(found) and all(isinstance(value, str | bool | int | float) for value in found)


def _is_off(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    return any(region.switched_off for region in regions_around(project, module, node))


def calls_compiled_code(project: Project, function: CustomFunction) -> bool:
    """Whether one of the passes calls anything but torch, methods of its tensors and the project's own functions."""
    statements = [*function.forward.body, *function.backward.body]
    calls = (node for item in statements for node in ast.walk(item) if isinstance(node, ast.Call))
    return any(is_foreign(project, function.module, node) for node in calls)


def is_foreign(project: Project, module: ModuleNames, node: ast.Call) -> bool:
    if isinstance(node.func, ast.Subscript):  # kernel[grid](...)
        return True
    name = resolve(project, module, node.func)
    if name is not None and name.startswith(("torch.", "math.", "einops.")):
        return name.startswith("torch.ops.")
    if name is None and not (isinstance(node.func, ast.Name) and node.func.id not in _PLAIN_CALLS):
        return False
    return called_function(project, module, node) is None
