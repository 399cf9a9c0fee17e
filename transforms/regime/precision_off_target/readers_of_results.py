"""Who gets what a function returns: its callers, hooks of Lightning, and functions that it is passed to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from ....codemod.purpose.lightning import STEPS, is_lightning_module
from ....codemod.python.callers import COMMON
from ....codemod.python.functions import FunctionTarget, all_bases, called_function, lineage
from ....codemod.python.limits import MAX_CALLER_FILES
from ....codemod.python.names import FunctionNode, ModuleNames, attribute_chain, modules_with, names_of, parameters_of
from ....codemod.python.paths import function_of
from ....codemod.source.project import Project
from ....codemod.torch.entering_calls import sites_of

OUTPUTS = "outputs"
HOOKS = ("_batch_end", "_step_end", "_epoch_end")
"""The parameter of Lightning's hooks that takes what a step returns, and how their names end."""
STEPPING = ("lightning.", "pytorch_lightning.", "transformers.", "trl.")
"""Packages that call the steps of the classes below theirs."""


def readers_of(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[ModuleNames, ast.AST, str]]:
    """The functions that get what this one returns, each with its name there."""
    for other, call in _calls_of(project, module, function):
        yield other, function_of(other, call), called(call)
    for other, hook in _hooks_of(project, module, function):
        yield other, hook, OUTPUTS
    for target, name in _handed_on(project, module, function):
        yield target.module, target.node, f"{name}()"


def _calls_of(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[ModuleNames, ast.Call]]:
    """The calls that reach a function, and those that may: of an object whose class is not known, of a base class."""
    yield from sites_of(project, module, function)
    is_method = module.scopes[function].enclosing_class is not None
    for other in _modules_that_name(project, module, function) if is_method else ():
        for call in other.calls_by_name.get(function.name, ()):
            target = called_function(project, other, call)
            may_be = target is None or _is_overridden(project, module, function, target)
            if may_be and isinstance(call.func, ast.Attribute):
                yield other, call


def _modules_that_name(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[ModuleNames]:
    """The modules in which the name of a function is likely to mean it."""
    everywhere = function.name not in COMMON and not function.name.startswith("__")
    documents = project.python_documents((function.name,)) if everywhere else (module.document,)
    yield from (names_of(project, document) for document in islice(documents, MAX_CALLER_FILES))


def _hooks_of(
    project: Project, module: ModuleNames, function: FunctionNode
) -> Iterator[tuple[ModuleNames, FunctionNode]]:
    """The hooks of callbacks and modules to which Lightning passes what a step returns."""
    owner = module.scopes[function].enclosing_class
    if function.name not in STEPS or owner is None or not isinstance(owner.node, ast.ClassDef):
        return
    if not is_lightning_module(project, module, owner.node):
        return
    for other in modules_with(project, (OUTPUTS,), HOOKS):
        for hook in other.of_type(ast.FunctionDef):
            if hook.name.endswith(HOOKS) and any(item.arg == OUTPUTS for item in parameters_of(hook)):
                yield other, hook


def _handed_on(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[FunctionTarget, str]]:
    """The functions that are passed this one, each with its name there."""
    for other, node in _mentions(project, module, function):
        found = _taken_by(project, other, node)
        if found is not None:
            yield found


def is_handed_out(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    """Whether code that is not followed is given the function itself, and may call it."""
    return any(
        _taken_by(project, other, node) is None
        for other, node in _mentions(project, module, function)
        if not isinstance(node, ast.Attribute) or _is_own(other, node)
    )


def _mentions(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[tuple[ModuleNames, ast.expr]]:
    for other in _modules_that_name(project, module, function):
        for node in (*other.name_loads.get(function.name, ()), *other.attribute_loads.get(function.name, ())):
            call = other.parents.get(node)
            is_called = isinstance(call, ast.Call) and node is call.func
            if not is_called and (isinstance(node, ast.Attribute) or _may_be(other, node, function)):
                yield other, node


def _may_be(module: ModuleNames, node: ast.Name, function: FunctionNode) -> bool:
    """Whether a name means the function, and no variable that is called the same."""
    bound = module.bindings_of(node)
    return not bound or any(item.kind == "import" or item.node is function for item in bound)


def _is_own(module: ModuleNames, node: ast.Attribute) -> bool:
    """``self.step``, ``trainer.step`` of an import: not what any object has under this name."""
    return chain(node).startswith("self.") or module.qualified(node) is not None


def _taken_by(project: Project, module: ModuleNames, node: ast.expr) -> tuple[FunctionTarget, str] | None:
    """The function that is passed an expression, and the parameter."""
    parent = module.parents.get(node)
    call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    target = called_function(project, module, call) if isinstance(call, ast.Call) else None
    name = target.parameter_for(call, node) if target is not None and isinstance(call, ast.Call) else None
    return (target, name) if target is not None and name is not None else None


def is_step(project: Project, module: ModuleNames, function: FunctionNode) -> bool:
    """Whether a library calls it, which computes with what it gives: a method of a class below one of its own."""
    owner = module.scopes[function].enclosing_class
    bases = all_bases(project, module, owner) if owner is not None else ()
    return any((holder.qualified(base) or "").startswith(STEPPING) for holder, base in bases)


def _is_overridden(project: Project, module: ModuleNames, function: FunctionNode, target: FunctionTarget) -> bool:
    """Whether the method that a call names stands in a base of the function's class."""
    own, base = module.scopes[function].enclosing_class, target.scope.enclosing_class
    if own is None or base is None or target.node is function:
        return False
    return any(scope is base for _, scope in lineage(project, module, own))


def called(call: ast.Call) -> str:
    """A name for what a call gives: the callers' own variables are found by it."""
    return f"{chain(call.func)}()"


def chain(node: ast.AST) -> str:
    return ".".join(attribute_chain(node) or ())
