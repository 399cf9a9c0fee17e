"""A loader whose ``dtype=None`` means "choose", and a function on the way there that turns None into float16."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ...codemod.model import Draft, Fix, Place
from ...codemod.python.bindings import default_of
from ...codemod.python.functions import FunctionTarget, called_function, returns_of
from ...codemod.python.names import FunctionNode, ModuleNames, names_of, parameters_of
from ...codemod.python.paths import guard_facts
from ...codemod.python.values import is_none, values_of
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import FP16
from .loads import LOAD_KEYS, LOADERS


def lost_nones(project: Project) -> Iterator[Draft]:
    seen: set[Place] = set()
    for document in project.python_documents(LOADERS, where=lambda text: "float16" in text and "dtype" in text):
        module = names_of(project, document)
        for name in LOADERS:
            for call in module.calls_by_name.get(name, []):
                draft = _at(project, module, call)
                if draft is not None and draft.place not in seen:
                    seen.add(draft.place)
                    yield draft


def _at(project: Project, module: ModuleNames, call: ast.Call) -> Draft | None:
    given = next((item.value for item in call.keywords if item.arg in LOAD_KEYS), None)
    made = _value_of(module, given) if given is not None else None
    if made is None or len(made.args) != 1 or made.keywords or not _may_be_none(module, made.args[0]):
        return None
    target = called_function(project, module, made)
    returned = _half_for_none(project, target) if target is not None else None
    chooser = _chooser(project, call) if returned is not None else None
    if target is None or returned is None or chooser is None:
        return None
    other, test = chooser
    evidence = (
        module.place(made, "the dtype that was asked for, None by default, goes through here"),
        other.place(test, "this would choose a dtype, and never sees None"),
    )
    message = (
        "no dtype (None) becomes float16 here, so that the model is not loaded in what the machine is asked to train in"
    )
    return Draft.at(target.module, returned, message, evidence, _fixes(target))


def _value_of(module: ModuleNames, node: ast.expr) -> ast.Call | None:
    if isinstance(node, ast.Name):
        values = [item.value for item in module.scope_of(node).lookup(node.id) if item.kind != "parameter"]
        return values[0] if len(values) == 1 and isinstance(values[0], ast.Call) else None
    return node if isinstance(node, ast.Call) else None


def _may_be_none(module: ModuleNames, node: ast.expr) -> bool:
    """Whether ``node`` is a parameter whose default is None."""
    found = module.scope_of(node).lookup(node.id) if isinstance(node, ast.Name) else []
    defaults = [default_of(item) for item in found if item.kind == "parameter"]
    return any(default is not None and is_none(default) for default in defaults)


def _half_for_none(project: Project, target: FunctionTarget) -> ast.Return | None:
    """The ``return`` that gives float16 to all that a table does not hold, in a function that never speaks of None."""
    parameters = parameters_of(target.node)
    name = parameters[-1].arg if parameters else ""
    if len(parameters) != 1 + target.bound or any(_is_none_constant(node) for node in ast.walk(target.node)):
        return None
    values = values_of(project, target.module)
    for returned in returns_of(target.node):
        value = returned.value
        if value is None:
            return None
        if isinstance(value, ast.Call) and _gets_half(project, target.module, value, name):
            return returned
        facts = guard_facts(target.module, returned)
        elsewhere = any(text.startswith(f"{name} in ") and not holds for text, holds in facts)
        if elsewhere and {item.value for item in values.scenarios(value)} == {FP16}:
            return returned
    return None


def _gets_half(project: Project, module: ModuleNames, call: ast.Call, name: str) -> bool:
    """``TABLE.get(dtype, torch.float16)``."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "get" or len(call.args) != 2:
        return False
    key, default = call.args
    return ast.unparse(key) == name and {i.value for i in values_of(project, module).scenarios(default)} == {FP16}


def _is_none_constant(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _chooser(project: Project, call: ast.Call) -> tuple[ModuleNames, ast.If] | None:
    """A function of that name with ``if dtype is None: dtype = ...``, and its test."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    for document in project.python_documents((f"def {name}",), where=lambda text: "dtype is None" in text):
        module = names_of(project, document)
        for node in module.nodes:
            if isinstance(node, ast.FunctionDef) and node.name == name:
                found = _choice_in(node)
                if found is not None:
                    return module, found
    return None


def _choice_in(function: FunctionNode) -> ast.If | None:
    for node in ast.walk(function):
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("dtype is None", "torch_dtype is None"):
            texts = [ast.unparse(item) for item in node.body if isinstance(item, ast.Assign)]
            if any("bfloat16" in text for text in texts):
                return node
    return None


def _fixes(target: FunctionTarget) -> tuple[Fix, ...]:
    _document, body = target.module.document, target.node.body
    name = parameters_of(target.node)[-1].arg
    documented = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1
    first = body[1] if documented else body[0]
    edit = target.module.insert(first, f"if {name} is None:\n    return None\n")
    message = "None stays None: the function that makes the model chooses, bfloat16 where the machine has it"
    return (Fix.unsafe("none-stays-none", message, edit),)
