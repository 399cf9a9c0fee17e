"""Both passes of the project's own autograd Functions, as the dtype flow follows them under autocast."""

from __future__ import annotations

import ast

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.autograd import Passes, follow_passes
from ...codemod.python.names import FunctionNode, defaults_in, parameters_of, positional
from ...codemod.source.project import Project
from .amp_decorators import BACKWARD, FORWARD
from .custom_functions import CustomFunction
from .function_uses import constant_inputs

_NUMBERS = {
    "int",
    "float",
    "bool",
    "str",
    "torch.dtype",
    "torch.device",
    "Callable",
    "callable",
    "dtype",
    "list",
    "dict",
}


def passes_of(project: Project, function: CustomFunction) -> Passes | None:
    """Both passes of a Function under autocast; None where its own decorators or code make that another question."""
    if function.separate_context or not function.inputs or looks_after_itself(function):
        return None
    amp = function.forward_amp
    if (amp is not None and not amp.keeps_autocast) or not positional(function.backward.args):
        return None
    numbers = {item.arg for item in parameters_of(function.forward) if _is_annotated_number(item)}
    numbers |= _constant_defaults(function.forward) | constant_inputs(project, function)
    flow, module = flow_of(project), function.module
    restored = _restores(function)
    return follow_passes(flow, module, function.forward, function.backward, frozenset(numbers), restored=restored)


def _restores(function: CustomFunction) -> bool:
    """Whether ``custom_bwd`` switches on again what ``custom_fwd`` has noted."""
    forward, backward = function.forward_amp, function.backward_amp
    return forward is not None and backward is not None and (forward.kind, backward.kind) == (FORWARD, BACKWARD)


def looks_after_itself(function: CustomFunction) -> bool:
    """Whether the class asks for autocast, or switches it, in its own code."""
    for node in ast.walk(function.node):
        text = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if "autocast" in text and not _is_decorator(function, node):
            return True
    return False


def compares_dtypes(node: ast.AST) -> bool:
    """Whether some comparison in ``node`` reads a dtype: it knows that there can be several."""
    return any(isinstance(item, ast.Compare) and reads_dtype(item) for item in ast.walk(node))


def reads_dtype(node: ast.AST) -> bool:
    """Whether a dtype is read somewhere in ``node``."""
    return any(isinstance(item, ast.Attribute) and item.attr == "dtype" for item in ast.walk(node))


def _is_decorator(function: CustomFunction, node: ast.AST) -> bool:
    decorators = [*function.forward.decorator_list, *function.backward.decorator_list]
    return any(node is item for decorator in decorators for item in ast.walk(decorator))


def _is_annotated_number(parameter: ast.arg) -> bool:
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    parts = {part.strip().strip("'\"") for part in annotation.replace("Optional[", "").replace("]", "").split("|")}
    return bool(annotation) and parts - {"None"} <= _NUMBERS


def _constant_defaults(function: FunctionNode) -> set[str]:
    """Parameters with a number for their default are numbers; those with None are tensors that may be missing."""
    found = defaults_in(function.args).items()
    return {name for name, value in found if isinstance(value, ast.Constant) and value.value is not None}
