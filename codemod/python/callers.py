"""Who calls a function of the project: the call sites that can be found by name, and whether these are all."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from ..source.project import Project
from .functions import FunctionTarget, called_function
from .names import FunctionNode, ModuleNames, names_of

MAX_DOCUMENTS = 30
"""In how many files a function's name may stand before its callers count as unknown."""
MAX_SITES = 16
MAX_FILES = 400
"""Up to this size every file of a project is searched for callers; beyond, those that speak of precision."""
WORDS = ("autocast", "scaler", "bfloat16", "float16", "bf16", "fp16", "precision")


@dataclass(frozen=True, slots=True, eq=False)
class CallSite:
    """A call that reaches the function, and the module it stands in."""

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


class CallerIndex:
    """Finds callers once per function; one per project, through ``callers_of``."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._known: dict[FunctionNode, Callers] = {}

    def of(self, module: ModuleNames, function: FunctionNode) -> Callers:
        """The callers of ``function``, which ``module`` defines."""
        if function not in self._known:
            self._known[function] = NOBODY_KNOWN  # a recursive question finds this
            self._known[function] = self._find(module, function)
        return self._known[function]

    def _find(self, module: ModuleNames, function: FunctionNode) -> Callers:
        name = _called_name(module, function)
        if name is None:
            return NOBODY_KNOWN
        sites: list[CallSite] = []
        complete = True
        everywhere = len(self._project.paths) <= MAX_FILES
        words = () if everywhere else WORDS
        documents = self._project.python_documents(containing=words, where=lambda text: name in text)
        for count, document in enumerate(documents):
            if count >= MAX_DOCUMENTS or len(sites) > MAX_SITES:
                return Callers(tuple(self._sites(module, function, name)[0][:MAX_SITES]), False)
            other = names_of(self._project, document)
            found, all_known = self._sites(other, function, name)
            sites += found
            complete = complete and all_known
        return Callers(tuple(sites), everywhere and complete and bool(sites))

    def _sites(self, module: ModuleNames, function: FunctionNode, name: str) -> tuple[list[CallSite], bool]:
        found: list[CallSite] = []
        complete = True
        called: set[ast.AST] = set()
        for call in module.calls_by_name.get(name, []):
            called.add(call.func)
            target = called_function(self._project, module, call)
            if target is None:
                complete = False
            elif target.node is function:
                found.append(CallSite(module, call, target))
        references: list[ast.AST] = [*module.name_loads.get(name, []), *module.attribute_loads.get(name, [])]
        return found, complete and all(node in called for node in references)


def callers_of(project: Project, module: ModuleNames, function: FunctionNode) -> Callers:
    """Who calls ``function``; only its own file is searched, and the answer not complete, where its name is common."""
    return project.fact(CallerIndex).of(module, function)


def _called_name(module: ModuleNames, function: FunctionNode) -> str | None:
    """What stands before the parenthesis: the function's name, or its class's for ``__init__``."""
    if function.name == "__init__":
        owner = module.scopes[function].enclosing_class
        return owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else None
    if function.name.startswith("__") or function.name in ("forward", "get", "call", "step", "update"):
        return None
    return function.name
