"""How an autograd Function is used: where it is applied, and whether it calls compiled code."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.facts.autocast import APIS
from ...codemod.facts.arguments import bind
from ...codemod.facts.functions import called_function
from ...codemod.facts.names import ModuleNames, attribute_chain, names_of, resolve
from ...codemod.project import Project
from ..hardware.deployment import is_test
from .custom_functions import CustomFunction

_PLAIN_CALLS = frozenset(
    {"int", "float", "len", "range", "max", "min", "abs", "isinstance", "tuple", "list", "zip", "enumerate", "getattr",
     "hasattr", "any", "all", "sum", "print", "super", "ValueError", "RuntimeError", "AssertionError", "NotImplementedError"}
)  # fmt: skip


def is_applied_under_autocast(project: Project, function: CustomFunction) -> bool:
    """Whether the Function is applied somewhere outside of tests and of regions that switch autocast off."""
    return any(not _is_off(project, module, node) for module, node in applications(project, function))


def applications(project: Project, function: CustomFunction) -> Iterator[tuple[ModuleNames, ast.Attribute]]:
    """Every ``Name.apply`` of the Function, called or handed on."""
    name = function.name
    for document in project.python_documents(("autograd", name), where=lambda text: f"{name}.apply" in text):
        if is_test(document.path):
            continue
        module = names_of(project, document)
        for node in module.attribute_loads.get("apply", []):
            chain = attribute_chain(node)
            if chain is not None and len(chain) >= 2 and chain[-2] == name:
                yield module, node


def _is_off(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    for parent in module.ancestors(node):
        contexts = [item.context_expr for item in parent.items] if isinstance(parent, ast.With | ast.AsyncWith) else []
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            contexts = parent.decorator_list
        if any(switches_off(project, module, item) for item in contexts):
            return True
    return False


def switches_off(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """``autocast(..., enabled=False)``, as a context or a decorator."""
    name = resolve(project, module, node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or name not in APIS:
        return False
    enabled = (bind(APIS[name], node) or {}).get("enabled")
    return isinstance(enabled, ast.Constant) and not enabled.value


def calls_compiled_code(project: Project, function: CustomFunction) -> bool:
    """Whether one of the passes calls anything but torch, methods of its tensors and the project's own functions."""
    decorators = {id(item) for node in (*function.forward.decorator_list, *function.backward.decorator_list)
                  for item in ast.walk(node)}  # fmt: skip
    calls = [node for item in (function.forward, function.backward) for node in ast.walk(item)]
    return any(
        isinstance(node, ast.Call) and id(node) not in decorators and _is_foreign(project, function.module, node)
        for node in calls
    )


def _is_foreign(project: Project, module: ModuleNames, node: ast.Call) -> bool:
    if isinstance(node.func, ast.Subscript):  # kernel[grid](...)
        return True
    name = resolve(project, module, node.func)
    if name is not None and name.startswith(("torch.", "math.", "einops.")):
        return name.startswith("torch.ops.")
    if name is None and not (isinstance(node.func, ast.Name) and node.func.id not in _PLAIN_CALLS):
        return False
    return called_function(project, module, node) is None
