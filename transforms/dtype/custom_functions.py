"""The project's own ``torch.autograd.Function`` classes: what they define, how they are used, how dtypes pass them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.flow.analysis import flow_of
from ...codemod.flow.autograd import Passes, follow_passes
from ...codemod.purpose.entered import regions_around
from ...codemod.purpose.files import is_test
from ...codemod.python.functions import called_function
from ...codemod.python.names import (
    FunctionNode,
    ModuleNames,
    attribute_chain,
    defaults_in,
    names_of,
    parameters_of,
    positional,
    resolve,
)
from ...codemod.source.facts import fact
from ...codemod.source.project import Project
from ...codemod.torch.api import NARROWING
from ...codemod.torch.dtype_values import constants_of
from .amp_decorators import BACKWARD, FORWARD, AmpDecorator, amp_decorator

_BASES = {
    "torch.autograd.Function",
    "torch.autograd.function.Function",
    "torch.autograd.function.InplaceFunction",
    "torch.autograd.function.NestedIOFunction",
}


@dataclass(frozen=True, slots=True, eq=False)
class CustomFunction:
    """A class that defines its own forward and backward pass."""

    module: ModuleNames
    node: ast.ClassDef
    forward: FunctionNode
    backward: FunctionNode
    forward_amp: AmpDecorator | None
    backward_amp: AmpDecorator | None
    separate_context: bool
    """Whether ``setup_context`` fills the context, so that ``forward`` has none (torch 2.0 on)."""

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def forward_context(self) -> str:
        """The name of the context parameter of ``forward``; "" when it has none."""
        return "" if self.separate_context else next((item.arg for item in positional(self.forward.args)), "")

    @property
    def inputs(self) -> list[ast.arg]:
        """The parameters of ``forward`` less the context."""
        names = positional(self.forward.args)
        return names if self.separate_context else names[1:]


@fact
def custom_functions(project: Project) -> tuple[CustomFunction, ...]:
    """Every such class that defines both passes, tests left out."""
    documents = project.python_documents(("autograd",), ("def backward(",), ("def forward(",), ("Function",))
    modules = (names_of(project, document) for document in documents if not is_test(document.path))
    return tuple(found for module in modules for found in _functions_of(project, module))


def checked_functions(project: Project) -> Iterator[CustomFunction]:
    """Those in the files in which mistakes are looked for."""
    return (found for found in custom_functions(project) if project.is_checked(found.module.path))


def _functions_of(project: Project, module: ModuleNames) -> Iterator[CustomFunction]:
    for node in module.scopes:
        if not isinstance(node, ast.ClassDef) or not any(_is_base(project, module, base) for base in node.bases):
            continue
        methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
        forward, backward = methods.get("forward"), methods.get("backward")
        if forward is None or backward is None:
            continue
        yield CustomFunction(
            module,
            node,
            forward,
            backward,
            amp_decorator(project, module, forward),
            amp_decorator(project, module, backward),
            "setup_context" in methods,
        )


def _is_base(project: Project, module: ModuleNames, base: ast.expr) -> bool:
    chain = attribute_chain(base)
    return chain is not None and "Function" in chain[-1] and resolve(project, module, base) in _BASES


# --- where it is applied, and whether it calls compiled code ----------------------------------------------------------


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


# --- both passes, as the dtype flow follows them under autocast -------------------------------------------------------


_NUMBERS = frozenset(
    ("int", "float", "bool", "str", "torch.dtype", "torch.device", "Callable", "callable", "dtype", "list", "dict")
)


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
