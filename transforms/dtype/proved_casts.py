"""What must be known before a cast may be called safe: its operand, and that its dtype can be asked for."""

from __future__ import annotations

import ast

from ...codemod.flow.analysis import FlowAnalysis, flow_of
from ...codemod.flow.classes import LibraryModel, ProjectClass, TorchLayer
from ...codemod.flow.containers import LISTS
from ...codemod.flow.frame import Meeting
from ...codemod.flow.lattice import Kind, Role, Value
from ...codemod.proof.needs import Known, Need
from ...codemod.python.arguments import receiver_of
from ...codemod.python.bindings import self_stores
from ...codemod.python.functions import FunctionTarget, called_function
from ...codemod.python.names import ModuleNames, attribute_chain
from ...codemod.python.paths import function_of
from ...codemod.releases.pins import allowed
from ...codemod.source.project import Project
from ...codemod.torch.api import QUANTIZED_KEYS
from ...codemod.torch.tables.layers import LAYERS
from .seen_clashes import owns_as_seen, rests_on_sight

ONLY_TENSORS = (
    "shape", "dim", "ndim", "size", "dtype", "float", "half", "bfloat16", "double", "long", "view", "reshape",
    "permute", "transpose", "unsqueeze", "squeeze", "flatten", "contiguous", "expand", "detach", "mean", "sum", "numel",
)  # fmt: skip
"""What is asked of a tensor and not of a dictionary, a list or a tokenizer's batch."""
MAX_CALLS = 3
"""Calls that a value is followed through to see what is done with it; autoencoders are wrapped twice, not more."""
QUANTIZING_WORDS = (
    *QUANTIZED_KEYS, "bitsandbytes", "linear8bitlt", "linear4bit", "gptq",
    "autoawq", "awqconfig", "from_quantized", "torchao", "quanto", "quantize_dynamic",
)  # fmt: skip
"""Words of code that may give layers weights of 8 or 4 bits, which are held as integers or under other names."""
QUANTIZERS = (
    "bitsandbytes", "auto-gptq", "gptqmodel", "autoawq", "torchao", "optimum-quanto", "hqq", "compressed-tensors",
)  # fmt: skip
"""The packages that do."""
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.Pow)
MAX_DEPTH = 4
"""Classes inside classes that are looked into; deeper ones count as not known."""


def needs_of_cast(project: Project, meeting: Meeting, text: str) -> tuple[Need, ...]:
    """What a cast to ``text`` needs: a module that can be asked for its dtype."""
    known, owns = _can_be_asked(project, meeting, text), owns_as_seen(meeting)
    floating = not _is_of_weights(meeting, text) or not project.fact(_may_quantize)
    return (
        Known(floating, "weights may be quantized here, whose dtype is that of integers"),
        Known(known or owns, f"{text} may not exist: not every such module owns parameters"),
        *rests_on_sight(project, meeting, known=known and is_read_as_tensor(project, meeting)),
    )


def _is_of_weights(meeting: Meeting, text: str) -> bool:
    """Whether a dtype is that of a layer's weights; a model of a library gives that of its floating ones."""
    return text.startswith("next(") or (meeting.operation == "module" and ".weight" in text)


def _may_quantize(project: Project) -> bool:
    """Whether the code or the requirements of a project speak of weights in 8 or 4 bits."""
    named = any(True for _ in project.python_documents(QUANTIZING_WORDS))
    return named or any(allowed(project, package) is not None for package in QUANTIZERS)


def _can_be_asked(project: Project, meeting: Meeting, text: str) -> bool:
    """Whether the module that gives the dtype certainly has what is asked of it."""
    if text.startswith("next("):
        return owns_parameters(flow_of(project), meeting.applied)
    detail = meeting.applied.detail if meeting.applied is not None else None
    layer = LAYERS.get(detail.name) if isinstance(detail, TorchLayer) else None
    if layer is None or not layer.affine or not text.endswith(".weight.dtype"):
        return True
    made = meeting.module.calls_by_name.get(layer.name, [])
    asked = (None, layer.affine.lstrip("!"))
    return not any(len(call.args) > 2 or any(item.arg in asked for item in call.keywords) for call in made)


def is_tensor(project: Project, meeting: Meeting) -> bool:
    """Whether the operand is certainly a tensor: an item of a batch may be a dictionary, which has no ``to``."""
    return meeting.seen is not None or is_read_as_tensor(project, meeting)


def is_read_as_tensor(project: Project, meeting: Meeting) -> bool:
    """The same by reading alone."""
    if meeting.odd.atom.dtype is not None:
        return True
    if meeting.odd.atom.role not in (Role.DATA, Role.PARAMETER) or meeting.operation != "module":
        return True
    module, node = meeting.module, meeting.odd.node
    if _is_layer(meeting.applied) or _computes(node) or _taken_by_autoencoder(meeting):
        return True
    if isinstance(meeting.node, ast.Call):
        target = _target(project, meeting, meeting.node)
        if target is not None and _takes_tensor(project, target, meeting.node, node, 0):
            return True
    return _is_used_as_tensor(project, module, function_of(module, node), ast.unparse(_moved(node)), 0)


def _is_layer(value: Value | None) -> bool:
    """Whether a module takes nothing but tensors."""
    if value is None or not isinstance(value.detail, TorchLayer):
        return False
    return _is_layer(value.items[0]) if value.items else value.detail.name not in LISTS


def _taken_by_autoencoder(meeting: Meeting) -> bool:
    detail = meeting.applied.detail if meeting.applied is not None else None
    first = meeting.node.args[:1] if isinstance(meeting.node, ast.Call) else []
    return isinstance(detail, LibraryModel) and detail.name.startswith("Autoencoder") and meeting.odd.node in first


def _target(project: Project, meeting: Meeting, call: ast.Call) -> FunctionTarget | None:
    """The function of the project that the operand is handed to."""
    detail = meeting.applied.detail if meeting.applied is not None else None
    if not isinstance(detail, ProjectClass):
        return called_function(project, meeting.module, call)
    analysis = flow_of(project)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return analysis.method(detail, name) or analysis.method(detail, "forward")


def _takes_tensor(project: Project, target: FunctionTarget, call: ast.Call, node: ast.expr, depth: int) -> bool:
    """Whether a function treats the argument ``node`` of ``call`` as a tensor."""
    name = next((name for name, given in target.arguments(call).items() if given is node), "")
    return bool(name) and depth < MAX_CALLS and _is_used_as_tensor(project, target.module, target.node, name, depth)


def _moved(node: ast.expr) -> ast.expr:
    """``x`` of ``x.to(device)``."""
    while (inner := receiver_of(node, "to", "cuda")) is not None:
        node = inner
    return node


def _computes(node: ast.expr) -> bool:
    """Whether an expression is a computation on tensors, or a method of one."""
    node = _moved(node)
    of_tensor = receiver_of(node, *ONLY_TENSORS) is not None
    return of_tensor or (isinstance(node, ast.BinOp) and isinstance(node.op, ARITHMETIC))


def _is_used_as_tensor(project: Project, module: ModuleNames, function: ast.AST, text: str, depth: int) -> bool:
    """Whether the function asks something of ``text`` that only a tensor can answer."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in ONLY_TENSORS and ast.unparse(node.value) == text:
            return True
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ARITHMETIC)
            and text in map(ast.unparse, (node.left, node.right))
        ):
            return True
        if isinstance(node, ast.Call) and _hands_to_tensors(project, module, node, text, depth):
            return True
    return False


def _hands_to_tensors(project: Project, module: ModuleNames, call: ast.Call, text: str, depth: int) -> bool:
    """Whether ``text`` is an argument of a layer of the same object, or of a function that treats it as a tensor."""
    given = next((item for item in call.args if ast.unparse(item) == text), None)
    if given is None:
        return False
    owner = module.scope_of(call).enclosing_class
    if owner is not None and attribute_chain(call.func) == ["self", getattr(call.func, "attr", "")]:
        held = flow_of(project).attributes(ProjectClass(module, owner)).get(getattr(call.func, "attr", ""))
        if _is_layer(held):
            return True
    target = called_function(project, module, call)
    return target is not None and _takes_tensor(project, target, call, given, depth + 1)


def owns_parameters(analysis: FlowAnalysis, value: Value | None, depth: int = 0) -> bool:
    """Whether every object that ``value`` can be has a parameter: of its own, or in one of its modules."""
    if value is None or value.kind is not Kind.MODULE or depth > MAX_DEPTH:
        return False
    detail = value.detail
    if isinstance(detail, TorchLayer) and detail.name in LISTS:
        return any(owns_parameters(analysis, item, depth + 1) for item in value.items or ())
    if isinstance(detail, TorchLayer):
        layer = LAYERS.get(detail.name)
        return layer is not None and layer.has_weights and not layer.affine
    if isinstance(detail, ProjectClass):
        return _class_owns(analysis, detail, depth)
    return isinstance(detail, LibraryModel) and detail.name[:1].isupper()


def _class_owns(analysis: FlowAnalysis, found: ProjectClass, depth: int) -> bool:
    """Whether the constructor gives each object a parameter, or a module that has one, whatever its arguments are."""
    for name, value in analysis.attributes(found).items():
        stores = self_stores(found.module, found.scope, name)
        in_constructor = [getattr(found.module.parents.get(item), "name", "") == "__init__" for _, item in stores]
        made = [expression for expression, _ in stores]
        if stores and all(in_constructor) and all(isinstance(expression, ast.Call) for expression in made):
            if owns_parameters(analysis, value, depth + 1):
                return True
            if all(_is_parameter(found, expression) for expression in made):
                return True
    return False


def _is_parameter(found: ProjectClass, expression: ast.expr | None) -> bool:
    named = isinstance(expression, ast.Call) and found.module.qualified(expression.func)
    return named in ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
