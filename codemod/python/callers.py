"""Who calls a function of the project: the call sites that can be found by name, and whether these are all."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from ..source.facts import memo
from ..source.project import Project
from .arguments import hides_arguments
from .functions import FunctionTarget, called_function, class_of
from .limits import MAX_CALL_SITES, MAX_CALLER_FILES, MAX_FILES_SEARCHED
from .names import FunctionNode, ModuleNames, modules_at
from .precision_words import SAID
from .scopes import last_name, positional
from .started import started_function

IMPORTING = ("importlib", "__import__", "runpy", "import_module")
"""Words of code that imports files by names which it computes."""
COMMON = ("forward", "get", "call", "step", "update")
"""Names of methods that too many classes have."""

MAX_HEIRS = 12
"""Classes below one: of a class with more the arguments say nothing."""


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
    is_cut: bool = False
    """Whether there are more calls than are looked at."""


Heir: TypeAlias = "tuple[ModuleNames, ast.ClassDef]"
"""A class below another, and the module it stands in."""
NOBODY_KNOWN = Callers((), False)


@memo
def callers_of(project: Project, module: ModuleNames, function: FunctionNode) -> Callers:
    """Who calls ``function``; only its own file is searched, and the answer not complete, where its name is common."""
    name = _called_name(module, function)
    if name is None:
        return NOBODY_KNOWN
    if project.fact(_is_imported_by_nobody, module.path):
        computing = project.python_paths(IMPORTING, (name,))
        own, complete = _sites(project, module.path, function, name)
        complete = complete and all(_sites(project, item, function, name)[1] for item in computing)
        return _cut(own, complete)
    sites: list[CallSite] = [*_of_heirs(project, module, function)] if function.name == "__init__" else []
    complete = True
    everywhere = len(project.paths) <= MAX_FILES_SEARCHED
    paths = project.python_paths(() if everywhere else SAID, (name,))
    for path in paths:
        if len(paths) > MAX_CALLER_FILES or len(sites) > MAX_CALL_SITES:
            own, is_cut = _sites(project, module.path, function, name)[0], len(paths) <= MAX_CALLER_FILES
            return Callers(tuple(own[:MAX_CALL_SITES]), False, is_cut)
        found, all_known = _sites(project, path, function, name)
        sites += found
        complete = complete and all_known
    return _cut(sites, everywhere and complete)


def _of_heirs(project: Project, module: ModuleNames, function: FunctionNode) -> Iterator[CallSite]:
    """What runs the ``__init__`` of a class besides: ``cls(...)``, and of classes below it calls, and ``super()``."""
    owner = module.scopes[function].enclosing_class
    node = owner.node if owner is not None else None
    target = FunctionTarget(module, function, bound=True)
    for other, heir in ((module, node), *heirs_of(project, module, node)) if isinstance(node, ast.ClassDef) else ():
        named = other.calls_by_name.get("cls", ())
        yield from (CallSite(other, call, target) for call in named if _is_in_method(other, call, heir))
        own = own_init(heir)
        if own is not None and heir is not node:
            calls = (call for call in other.calls_by_name.get("__init__", ()) if _is_super(call))
            yield from (CallSite(other, call, target) for call in calls if other.scope_of(call).function.node is own)
        elif heir is not node:
            for path in project.python_paths((heir.name,)):
                yield from _sites(project, path, function, heir.name)[0]


def heirs_of(project: Project, module: ModuleNames, node: ast.ClassDef) -> tuple[Heir, ...]:
    """The classes below a class, as far as their files name it; none below those that have an ``__init__``."""
    return project.fact(_heirs, module.path, module.addresses[node])


def _heirs(project: Project, path: str, address: str) -> tuple[Heir, ...]:
    """The same for a class by its name: it rests on no more of other files than it says."""
    found: dict[ast.ClassDef, ModuleNames] = {}
    starts = ((module, module.by_address.get(address)) for module in modules_at(project, (path,)))
    waiting = [(module, node) for module, node in starts if isinstance(node, ast.ClassDef)]
    while waiting and len(found) < MAX_HEIRS:
        home, above = waiting.pop(0)
        paths = project.python_paths((above.name,))
        for file in paths if len(paths) <= MAX_CALLER_FILES else (home.path,):
            for other, heir in project.memo(_heirs_in, (file, above)):
                if heir not in found:
                    found[heir] = other
                    waiting += [(other, heir)] if own_init(heir) is None else []
    return tuple((other, heir) for heir, other in found.items())


def _heirs_in(project: Project, asked: tuple[str, ast.ClassDef]) -> tuple[Heir, ...]:
    """The classes in a file whose first base is a class."""
    path, above = asked
    return tuple(
        (module, heir)
        for module in modules_at(project, (path,))
        for heir in module.of_type(ast.ClassDef)
        for base in heir.bases[:1]
        if last_name(base) == above.name and (known := class_of(project, module, base)) and known[1].node is above
    )


def own_init(node: ast.ClassDef) -> FunctionNode | None:
    """The ``__init__`` that a class has itself."""
    return next((item for item in node.body if isinstance(item, FunctionNode) and item.name == "__init__"), None)


def _is_in_method(module: ModuleNames, call: ast.Call, node: ast.ClassDef) -> bool:
    """Whether a call stands in a class method of a class, which runs the ``__init__`` of the class or one below it."""
    scope = module.scope_of(call).function
    first = positional(scope.node.args)[:1] if isinstance(scope.node, FunctionNode) else []
    return (
        scope.enclosing_class is not None
        and scope.enclosing_class.node is node
        and [item.arg for item in first] == ["cls"]
    )


def _is_super(call: ast.Call) -> bool:
    """``super().__init__(...)``."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    return isinstance(owner, ast.Call) and isinstance(owner.func, ast.Name) and owner.func.id == "super"


def _cut(sites: list[CallSite], complete: bool) -> Callers:
    is_cut = len(sites) > MAX_CALL_SITES
    return Callers(tuple(sites[:MAX_CALL_SITES]), complete and bool(sites) and not is_cut, is_cut)


def _is_imported_by_nobody(project: Project, path: str) -> bool:
    """Whether a file only runs by itself, as far as the import statements of others tell."""
    stem = path.rpartition("/")[2].removesuffix(".py")
    if not path.endswith(".py") or stem.startswith("__"):
        return False
    near = (other for other in project.python_paths((), (stem,)) if other != path)
    others = [other for other in near if stem in project.memo(_import_lines, other)]
    return len(others) <= MAX_CALLER_FILES and all(stem not in project.memo(_imported, other) for other in others)


def _import_lines(project: Project, path: str) -> str:
    """All lines of import statements, and some more: text is looked at so that few files are parsed."""
    document = project.document(path)
    found, is_open = [], False
    for line in document.text.splitlines() if document is not None else ():
        if is_open or "import" in line or line.endswith("\\"):
            found.append(line)
            is_open = ")" not in line and (is_open or "(" in line)
    return "\n".join(found)


def _imported(project: Project, path: str) -> set[str]:
    """Every part of a name in the import statements of a file."""
    named = []
    for module in modules_at(project, (path,)):
        named += [item.module or "" for item in module.of_type(ast.ImportFrom)]
        listed: list[ast.Import | ast.ImportFrom] = [*module.of_type(ast.Import), *module.of_type(ast.ImportFrom)]
        named += [alias.name for item in listed for alias in item.names]
    return {part for name in named for part in name.split(".")}


def _sites(project: Project, path: str, function: FunctionNode, name: str) -> tuple[list[CallSite], bool]:
    found, unknown, complete = project.fact(_sites_by_name, path, name)
    own = [site for site in found if site.target.node is function]
    return own, complete and not any(_may_reach(call, function) for call in unknown)


def _may_reach(call: ast.Call, function: FunctionNode) -> bool:
    """Whether a call can be one of a function: ``model.train()`` lacks what ``train(model, batches)`` has to be given.

    Of a method the object may be given besides.
    """
    if hides_arguments(call):
        return True
    needed = len(positional(function.args)) - len(function.args.defaults)
    return len(call.args) + len(call.keywords) + isinstance(call.func, ast.Attribute) >= needed


def _sites_by_name(project: Project, path: str, name: str) -> tuple[list[CallSite], list[ast.Call], bool]:
    """The calls in a file that reach any function of a name, those of which nobody knows, and whether these are all."""
    module = next(modules_at(project, (path,)), None)
    if module is None:
        return [], [], True
    found: list[CallSite] = []
    unknown: list[ast.Call] = []
    called: set[ast.AST] = set()
    for call in module.calls_by_name.get(name, []):
        called.add(call.func)
        target = called_function(project, module, call)
        if target is None:
            unknown.append(call)
        else:
            found.append(CallSite(module, call, target))
    named = (node for node in module.name_loads.get(name, []) if not _is_parameter(module, node))
    read = (node for node in module.attribute_loads.get(name, []) if not _is_of_library(project, module, node))
    references = [node for node in (*named, *read) if not _is_only_tested(module, node)]
    for node in references:
        if node in called:
            continue
        start = next((above for above in islice(module.ancestors(node), 2) if isinstance(above, ast.Call)), None)
        target = started_function(project, module, start, node) if start is not None else None
        if start is not None and target is not None:
            called.add(node)
            found.append(CallSite(module, start, target))
    return found, unknown, all(node in called for node in references)


def _is_parameter(module: ModuleNames, node: ast.Name) -> bool:
    """Whether a name is a parameter's: ``if train:``; who passes a function there refers to it in another place."""
    return {binding.kind for binding in module.bindings_of(node)} == {"parameter"}


def _is_only_tested(module: ModuleNames, node: ast.expr) -> bool:
    """``if opt.train:``, ``opt.train and opt.no_test``: nobody gets a function by that."""
    above = module.parents.get(node)
    while isinstance(above, ast.BoolOp) or (isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)):
        node, above = above, module.parents.get(above)
    return isinstance(above, ast.If | ast.While | ast.IfExp | ast.Assert) and above.test is node


def _is_of_library(project: Project, module: ModuleNames, node: ast.expr) -> bool:
    """Whether an attribute is one of a package of which the project has no file: ``tf.train``."""
    root = (module.qualified(node) or "").partition(".")[0]
    return bool(root) and root not in project.fact(_names_of_files)


def _names_of_files(project: Project) -> frozenset[str]:
    return frozenset(part for path in project.python_paths(()) for part in path.removesuffix(".py").split("/"))


def _called_name(module: ModuleNames, function: FunctionNode) -> str | None:
    """What stands before the parenthesis: the function's name, or its class's for ``__init__``."""
    if function.name == "__init__":
        owner = module.scopes[function].enclosing_class
        return owner.node.name if owner is not None and isinstance(owner.node, ast.ClassDef) else None
    of_class = module.scopes[function].enclosing_class is not None
    if function.name.startswith("__") or (of_class and function.name in COMMON):
        return None
    return function.name
