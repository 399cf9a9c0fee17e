"""Forward and backward of an autograd Function followed together: what forward saves is what backward multiplies.

The question is what happens under autocast, so forward is followed with autocast on. Backward runs outside of the
region (that is where ``loss.backward()`` belongs) unless ``custom_bwd`` brings autocast back.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ...codemod.python.names import parameters_of
from ...codemod.source.project import Project
from .amp_decorators import BACKWARD, FORWARD
from .custom_functions import CustomFunction, positional
from .function_uses import constant_inputs
from .role_flow import follow
from .role_frame import Meeting
from .roles import A_NONE, A_NUMBER, INPUT, UNKNOWN_ROLE, Role, Saved, Value, role_of

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


@dataclass(frozen=True, slots=True, eq=False)
class Passes:
    """What was met in both passes."""

    forward: tuple[Meeting, ...]
    backward: tuple[Meeting, ...]
    saved: frozenset[str]
    """The inputs that backward sees as they came in."""
    backward_autocast: bool


def passes_of(project: Project, function: CustomFunction) -> Passes | None:
    """Both passes of a Function under autocast; None where its own decorators or code make that another question."""
    if function.separate_context or not function.inputs or looks_after_itself(function):
        return None
    amp = function.forward_amp
    if amp is not None and not amp.keeps_autocast:
        return None
    names: dict[str, Value] = {item.arg: _input(item) for item in parameters_of(function.forward)}
    names.update(_constant_defaults(function.forward))
    names.update(dict.fromkeys(constant_inputs(project, function), A_NUMBER))
    context = function.forward_context
    forward = follow(project, function.module, function.forward, names, autocast=True, context=context)
    saved = Saved(tuple(forward.saves.values()), tuple(forward.open_saves.values()))
    kept = {name: value for name, value in forward.names.items() if name.startswith("ctx.")}
    grads = _gradients(function, forward.returned)
    if grads is None:
        return None
    on = function.backward_amp is not None and function.backward_amp.kind == BACKWARD and _is_kept(function)
    backward = follow(
        project,
        function.module,
        function.backward,
        {**kept, **grads},
        autocast=on,
        context=function.context,
        saved=saved,
    )
    values = [*kept.values(), *(item for option in saved.rows for item in option)]
    raw = {role.of for value in values if (role := role_of(value)).kind == INPUT}
    return Passes(tuple(forward.meetings.values()), tuple(backward.meetings.values()), frozenset(raw), on)


def looks_after_itself(function: CustomFunction) -> bool:
    """Whether the class asks for autocast, or switches it, in its own code."""
    for node in ast.walk(function.node):
        text = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if "autocast" in text and not _is_decorator(function, node):
            return True
    return False


def compares_dtypes(function: CustomFunction) -> bool:
    """Whether the class asks which dtype a tensor has, and so knows that it can be given several."""
    compared = (node for node in ast.walk(function.node) if isinstance(node, ast.Compare))
    return any(isinstance(item, ast.Attribute) and item.attr == "dtype" for node in compared for item in ast.walk(node))


def _is_decorator(function: CustomFunction, node: ast.AST) -> bool:
    decorators = [*function.forward.decorator_list, *function.backward.decorator_list]
    return any(node is item for decorator in decorators for item in ast.walk(decorator))


def _is_kept(function: CustomFunction) -> bool:
    return function.forward_amp is not None and function.forward_amp.kind == FORWARD


def _input(parameter: ast.arg) -> Value:
    annotation = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    parts = {part.strip().strip("'\"") for part in annotation.replace("Optional[", "").replace("]", "").split("|")}
    if annotation and parts - {"None"} <= _NUMBERS:
        return A_NUMBER
    return Role(INPUT, parameter.arg)


def _constant_defaults(function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Value]:
    """Parameters with a number for their default are numbers; those with None are tensors that may be missing."""
    pairs = zip(reversed(positional(function)), reversed(function.args.defaults), strict=False)
    return {
        parameter.arg: A_NUMBER
        for parameter, value in pairs
        if isinstance(value, ast.Constant) and value.value is not None
    }


def _gradients(function: CustomFunction, returned: list[Value]) -> dict[str, Value] | None:
    """The roles of backward's parameters: each gradient has the dtype of its output."""
    outputs = _outputs(returned)
    parameters = [item.arg for item in positional(function.backward)[1:]]
    names: dict[str, Value] = {}
    for index, name in enumerate(parameters):
        role = outputs[index] if outputs is not None and index < len(outputs) else UNKNOWN_ROLE
        names[name] = Role(role.kind, role.of, graded=True)
    if function.backward.args.vararg is not None:
        rest = (outputs or [])[len(parameters) :]
        kinds = {(role.kind, role.of) for role in rest}
        kind, of = kinds.pop() if len(kinds) == 1 else (UNKNOWN_ROLE.kind, "")
        names[function.backward.args.vararg.arg] = Role(kind, of, graded=True)
    return names or None


def _outputs(returned: list[Value]) -> list[Role] | None:
    shapes = {len(value) if isinstance(value, tuple) else 1 for value in returned}
    if len(shapes) != 1:
        return None
    rows = [[role_of(item) for item in value] if isinstance(value, tuple) else [role_of(value)] for value in returned]
    agreed = []
    for column in zip(*rows, strict=True):
        kinds = {(role.kind, role.of) for role in column if role != A_NONE}
        agreed.append(Role(*kinds.pop()) if len(kinds) == 1 else UNKNOWN_ROLE)
    return agreed
