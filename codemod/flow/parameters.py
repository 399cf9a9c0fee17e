"""What a function's parameters are before anybody calls it: tensors, numbers, dtypes, batches, or nothing known."""

from __future__ import annotations

import ast
from dataclasses import replace

from ..purpose.outcomes import may_be_passed
from ..python.bindings import default_of
from ..python.names import FunctionNode, ModuleNames, positional
from ..python.scopes import text_of
from ..source.project import Project
from ..source.slices import place_in_file
from ..torch.half_words import weights_can_be_half
from ..torch.tables.libraries import MODEL_PARAMETERS
from .classes import LibraryModel, ProjectClass
from .frame import Frame
from .lattice import NUMBER_VALUE, UNKNOWN_VALUE, Atom, Kind, Role, Value
from .registries import class_value

TENSOR_ATTRIBUTES = {
    "shape", "dtype", "size", "view", "reshape", "permute", "transpose", "unsqueeze", "squeeze", "detach", "contiguous",
    "new_zeros", "new_ones", "new_full", "masked_fill", "expand", "flatten", "ndim", "dim", "chunk",
}  # fmt: skip
NUMBERS = ("int", "float", "str", "bool", "Sequence", "Callable", "Path", "device")


def parameter_value(frame: Frame, function: FunctionNode, parameter: ast.arg, owner: ProjectClass | None) -> Value:
    """What the interpretation starts with for one parameter."""
    name = parameter.arg
    if owner is not None and positional(function.args)[:1] == [parameter] and name in ("self", "cls"):
        own = frame.own_weights
        return Value(Kind.MODULE, (own,) if own is not None else (), detail=owner)
    annotation = annotation_of(frame.project, parameter)
    if name.endswith("dtype") or "dtype" in annotation:
        expression = ast.Name(name, ast.Load())
        source = frame.source(parameter, f"{name} is given to {function.name}")
        atom = Atom(symbol=name, role=Role.EXPRESSION, source=source, expression=expression)
        return Value(Kind.DTYPE, (atom,))
    if parameter in (function.args.vararg, function.args.kwarg):
        return UNKNOWN_VALUE
    if name == "batch" and "dict" in annotation.lower() + "dict":
        return Value(Kind.BATCH, label=name)
    chosen = _default_class(frame, function, parameter)
    if chosen.detail is not None:  # ``norm_layer: Callable = LayerNorm``, ``block: type[nn.Module] = Block``
        return replace(chosen, label=parameter_symbol(function, name))
    if "Tensor" not in annotation and any(word in annotation for word in NUMBERS):
        return NUMBER_VALUE
    named_model = name in MODEL_PARAMETERS and "Tensor" not in annotation
    if "Tensor" in annotation or (not named_model and name in _tensors(frame, function)):
        return Value(Kind.TENSOR, (_symbol(frame, function, parameter),))
    if named_model or "Module" in annotation:
        model = LibraryModel(name, parameter=parameter_symbol(function, name))
        return Value(Kind.MODULE, (), detail=model, label=name)
    return Value(label=parameter_symbol(function, name))


def _default_class(frame: Frame, function: FunctionNode, parameter: ast.arg) -> Value:
    """``def __init__(self, block=Block)``: the class of parts that a constructor is handed, where no call fills it."""
    bindings = frame.module.scopes[function].bindings.get(parameter.arg, []) if function.name == "__init__" else []
    default = default_of(bindings[0]) if bindings else None
    if not isinstance(default, ast.Name | ast.Attribute):
        return UNKNOWN_VALUE
    filled = frame.project.memo(may_be_passed, (frame.module, parameter))
    return UNKNOWN_VALUE if filled else class_value(frame, default)


def annotation_of(project: Project, parameter: ast.arg) -> str:
    """The source text of a parameter's annotation; empty without one."""
    return project.memo(_annotation, parameter) if parameter.annotation is not None else ""


def _annotation(_project: Project, parameter: ast.arg) -> str:
    return text_of(parameter.annotation) if parameter.annotation is not None else ""


def parameter_symbol(function: FunctionNode, name: str) -> str:
    """The key of "the dtype of this function's parameter": the same wherever the code around it stands in its file."""
    return f"parameter {name} of {function.name}:{place_in_file(function)}"


def _symbol(frame: Frame, function: FunctionNode, parameter: ast.arg) -> Atom:
    source = frame.source(parameter, f"{parameter.arg} is given to {function.name}, in the dtype of the model")
    text = parameter_symbol(function, parameter.arg)
    own = frame.own_weights
    half = own.can_be_half if own is not None else weights_can_be_half(frame.project)
    return Atom(symbol=text, role=Role.PARAMETER, can_be_half=half, source=source)


def _tensors(frame: Frame, function: FunctionNode) -> set[str]:
    """The names that the function treats as tensors (``x.shape``, ``x.view(...)``)."""
    return frame.module.of_parts(_tensor_names).get(function, set())


def _tensor_names(module: ModuleNames) -> dict[ast.AST, set[str]]:
    """Names whose attributes tell that they hold tensors, per function."""
    found: dict[ast.AST, set[str]] = {}
    for attribute in TENSOR_ATTRIBUTES:
        for node in module.attribute_loads.get(attribute, []):
            if isinstance(node.value, ast.Name):
                found.setdefault(module.scope_of(node).function.node, set()).add(node.value.id)
    return found
