"""Parameters for a precision that the function never reads, although a caller passes one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ....codemod.model import Draft
from ....codemod.python.bindings import default_of, only_target
from ....codemod.python.callers import CallSite, callers_of
from ....codemod.python.identifiers import words_of
from ....codemod.python.names import (
    Binding,
    FunctionNode,
    ModuleNames,
    last_name,
    modules_with,
    parameters_of,
)
from ....codemod.python.options import SETTINGS, options_in
from ....codemod.python.scopes import is_docstring
from ....codemod.source.project import Project
from ....codemod.trainers.reading.links import sources
from .options import is_asked_for, is_namespace
from .words import is_asked, is_on_anyway, is_refused, names_precision

WHOLE = ("locals", "vars", "eval", "exec", "get_current_context", "pass_context", "pass_obj")
"""Functions that may read every parameter without its name."""
WHOLE_OBJECTS = frozenset(("vars", "getattr", "save_hyperparameters", "asdict", "deepcopy", "dump", "save"))
"""Functions that may read every attribute of an object."""
PLAIN_BASES = ("object", "torch.nn.Module", "torch.nn.modules.module.Module")
PLAIN_DECORATORS = ("staticmethod", "classmethod", "no_grad", "inference_mode", "record", "enable_grad")


def unread_parameters(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``def train(model, use_amp=False)`` in which nothing says ``use_amp``."""
    functions: list[FunctionNode] = [*module.of_type(ast.FunctionDef), *module.of_type(ast.AsyncFunctionDef)]
    for function in functions:
        for parameter in _unread(project, module, function):
            site = _passing(project, module, function, parameter)
            if site is not None:
                unread = "nothing reads the attribute that keeps it"
                unread = unread if _is_named(function, parameter.arg) else f"{function.name} never reads it"
                message = f"{parameter.arg} has no effect: {unread}"
                yield Draft.at(module, parameter, message, [site.module.place(site.call, "a precision is passed here")])


def _unread(project: Project, module: ModuleNames, function: FunctionNode) -> list[ast.arg]:
    scope = module.scopes[function]
    found = []
    for parameter in parameters_of(function):
        bindings = scope.bindings.get(parameter.arg, [])
        is_single = len(bindings) == 1 and parameter not in (function.args.vararg, function.args.kwarg)
        may_be_about = is_single and names_precision(parameter.arg, True)
        is_about = may_be_about and names_precision(parameter.arg, _is_switch(bindings[0]))
        named = is_about and _is_named(function, parameter.arg)
        unused = is_about and (not named or _is_stored_only(project, module, function, parameter.arg))
        if unused and not is_refused(parameter.arg, [function]):
            found.append(parameter)
    return (
        found
        if found and not _may_leave_alone(module, function) and not is_on_anyway(project, module, function)
        else []
    )


def _is_switch(binding: Binding) -> bool:
    default = default_of(binding)
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)


def unread_commands(project: Project, module: ModuleNames) -> Iterator[Draft]:
    """``@click.option("--fp16")`` over a function that never says ``fp16``, and its kin of typer, fire and tyro."""
    for option in (option for group in options_in(project, module).values() for option in group):
        function = option.function or module.parents.get(option.node)
        parameters = parameters_of(function) if isinstance(function, FunctionNode) else []
        node = next((item for item in parameters if item.arg == option.name), None)
        if not isinstance(function, FunctionNode) or node is None:
            continue
        is_switch = option.switch is not None or option.is_truth
        is_about = names_precision(option.name, is_switch) and not _is_named(function, option.name)
        if not is_about or _is_stub(function) or _reads_whole(function) or is_refused(option.name, [function]):
            continue
        if is_asked_for(project, module, option) and not is_on_anyway(project, module, module.tree):
            message = f"--{option.name} has no effect: {function.name} never reads {option.name}"
            yield Draft.at(module, node, message)


def _reads_whole(function: FunctionNode) -> bool:
    """Whether a function may read every parameter without its name: ``locals()``, the context of click."""
    called = {last_name(node.func) for node in ast.walk(function) if isinstance(node, ast.Call)}
    said = {last_name(item) for item in function.decorator_list}
    return not (called | said).isdisjoint(WHOLE)


def _is_named(function: FunctionNode, name: str) -> bool:
    """Whether the body says the name, deleted and stored included, or a string of the same text."""
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                return True
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and name in node.value:
                return True
    return False


def _is_stored_only(project: Project, module: ModuleNames, function: FunctionNode, name: str) -> bool:
    """Whether a constructor keeps a parameter in ``self`` and does no more with it, nor does anything read that."""
    owner = module.scopes[function].enclosing_class
    uses = [node for node in module.name_loads.get(name, ()) if function in module.ancestors(node)]
    store = module.parents.get(uses[0]) if len(uses) == 1 else None
    target = only_target(store)
    is_own = isinstance(target, ast.Attribute) and ast.unparse(target.value) == "self"
    if function.name != "__init__" or owner is None or not is_own or not isinstance(target, ast.Attribute):
        return False
    if not SETTINGS.isdisjoint(words_of(getattr(owner.node, "name", ""))) or is_on_anyway(project, module, module.tree):
        return False  # what only holds settings is for others to read
    said = (target.attr, name)
    return not any(_may_read(other, store, said) for other in modules_with(project, said))


def _may_read(module: ModuleNames, store: ast.AST | None, names: Sequence[str]) -> bool:
    """Whether a file may read an attribute of one of the names: of a namespace it is an option, which is passed."""
    loads = [node for name in names for node in module.attribute_loads.get(name, ()) if not is_namespace(node.value)]
    texts = (node.value for node in module.of_type(ast.Constant) if isinstance(node.value, str))
    is_here = store in module.nodes
    spread = is_here and (module.attribute_loads.get("__dict__") or not WHOLE_OBJECTS.isdisjoint(module.calls_by_name))
    return bool(loads or spread) or any(text in names for text in texts)


def _may_leave_alone(module: ModuleNames, function: FunctionNode) -> bool:
    """Whether a function is there for its signature: it does nothing, or what it must look like is said elsewhere."""
    if _is_stub(function) or not all(_is_plain(item) for item in function.decorator_list):
        return True
    if _reads_whole(function):
        return True
    owner = module.parents.get(function)
    if isinstance(owner, ast.Module):
        return False
    if not isinstance(owner, ast.ClassDef) or owner.keywords or owner.decorator_list:
        return True
    bases = [module.qualified(base) or ast.unparse(base) for base in owner.bases]
    own = function.name == "__init__" or not bases
    return not own or any(base not in PLAIN_BASES for base in bases)


def _is_stub(function: FunctionNode) -> bool:
    body = [item for item in function.body if not is_docstring(item)]
    if len(body) > 1:
        return False
    return all(isinstance(item, ast.Raise | ast.Pass) for item in body) or (
        isinstance(body[0], ast.Return) and (body[0].value is None or isinstance(body[0].value, ast.Constant))
    )


def _is_plain(decorator: ast.expr) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    return last_name(node) in PLAIN_DECORATORS


def _passing(project: Project, module: ModuleNames, function: FunctionNode, parameter: ast.arg) -> CallSite | None:
    """A call that passes a precision for the parameter, where all calls are known and nothing else has its shape."""
    callers = callers_of(project, module, function)
    if not callers.complete or _has_namesakes(project, function, parameter.arg):
        return None
    for site in callers.sites:
        argument = site.target.arguments(site.call).get(parameter.arg)
        stated = sources(project, site.module, argument) if argument is not None else ()
        if argument is not None and (not stated or any(is_asked(source.value) for source in stated)):
            return site
    return None


def _has_namesakes(project: Project, function: FunctionNode, parameter: str) -> bool:
    """Whether another function of the same name has the parameter too: one of several to choose from."""
    if function.name == "__init__":
        return False
    for other in modules_with(project, (parameter,), (f"def {function.name}",)):
        named: list[FunctionNode] = [*other.of_type(ast.FunctionDef), *other.of_type(ast.AsyncFunctionDef)]
        for item in named:
            same = item is not function and item.name == function.name
            if same and any(own.arg == parameter for own in parameters_of(item)):
                return True
    return False
