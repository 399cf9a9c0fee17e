"""Who calls a function of the project: the call sites that can be found by name, and whether these are all."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import islice

from ..source.facts import memo
from ..source.project import Project
from .functions import FunctionTarget, called_function
from .limits import MAX_CALL_SITES, MAX_CALLER_FILES, MAX_FILES_SEARCHED
from .names import FunctionNode, ModuleNames, names_of
from .precision_words import SAID
from .started import started_function

COMMON = ("forward", "get", "call", "step", "update")
"""Names of methods that too many classes have."""


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A call that reaches the function, or starts it (``mp.spawn``), and the module it stands in."""

    module: ModuleNames
    call: ast.Call
    target: FunctionTarget


@dataclass(frozen=True, slots=True)
class Callers:
    """The call sites of one function."""

    sites: tuple[CallSite, ...]
    complete: bool
    """False where the function is also passed as a value, or called on an object whose class is not known."""


NOBODY_KNOWN = Callers((), False)


@memo
def callers_of(project: Project, module: ModuleNames, function: FunctionNode) -> Callers:
    """Who calls ``function``; only its own file is searched, and the answer not complete, where its name is common."""
    name = _called_name(module, function)
    if name is None:
        return NOBODY_KNOWN
    sites: list[CallSite] = []
    complete = True
    everywhere = len(project.paths) <= MAX_FILES_SEARCHED
    documents = project.python_documents(() if everywhere else SAID, (name,))
    for count, document in enumerate(documents):
        if count >= MAX_CALLER_FILES or len(sites) > MAX_CALL_SITES:
            return Callers(tuple(_sites(project, module, function, name)[0][:MAX_CALL_SITES]), False)
        found, all_known = _sites(project, names_of(project, document), function, name)
        sites += found
        complete = complete and all_known
    return Callers(tuple(sites), everywhere and complete and bool(sites))


def _sites(project: Project, module: ModuleNames, function: FunctionNode, name: str) -> tuple[list[CallSite], bool]:
    found, complete = project.memo(_sites_by_name, (module, name))
    return [site for site in found if site.target.node is function], complete


def _sites_by_name(project: Project, asked: tuple[ModuleNames, str]) -> tuple[list[CallSite], bool]:
    """The calls in a file that reach any function of a name, and whether these are all: many classes may have one."""
    module, name = asked
    found: list[CallSite] = []
    complete = True
    called: set[ast.AST] = set()
    for call in module.calls_by_name.get(name, []):
        called.add(call.func)
        target = called_function(project, module, call)
        if target is None:
            complete = False
        else:
            found.append(CallSite(module, call, target))
    references: list[ast.AST] = [*module.name_loads.get(name, []), *module.attribute_loads.get(name, [])]
    for node in references:
        if node in called:
            continue
        start = next((above for above in islice(module.ancestors(node), 2) if isinstance(above, ast.Call)), None)
        target = started_function(project, module, start, node) if start is not None else None
        if start is not None and target is not None:
            called.add(node)
            found.append(CallSite(module, start, target))
    return found, complete and all(node in called for node in references)


def _called_name(module: ModuleNames, function: FunctionNode) -> str | None:
    """What stands before the parenthesis: the function's name, or its class's for ``__init__``."""
    if function.name == "__init__":
        owner = module.scopes[function].enclosing_class
        return owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else None
    of_class = module.scopes[function].enclosing_class is not None
    if function.name.startswith("__") or (of_class and function.name in COMMON):
        return None
    return function.name
