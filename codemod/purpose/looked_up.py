"""Whether code looks a function or class up under a name that it computes: ``getattr(jobs, args.job)()``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from ..python.functions import bases_of, lineage
from ..python.names import ModuleNames, Scope, attribute_chain, modules_with
from ..source.project import Project
from .computed_names import IMPORTING, is_module, is_of_class, may_be_text
from .files import is_test
from .imports import importers_of
from .outcomes import known_texts

ReachTest = Callable[[ModuleNames, ast.AST], bool]
"""Whether a run comes to a place that looks something up."""
Lookup: TypeAlias = "tuple[ast.expr, ast.expr, ast.expr | None]"
"""Where something is looked up, on what, and under which name (None for any)."""
WHOLE = ("getmembers", "dir")
"""Functions that give all names of what they are passed."""
OWN = ("globals", "locals", "vars")
"""Functions that give all names around a call."""
DELEGATING = ("__getattr__", "__getattribute__")
"""Methods that look up what is written out where they are used."""
PLAIN_METACLASSES = ("ABCMeta", "type", "EnumMeta")


def is_looked_up(
    project: Project, module: ModuleNames, owner: Scope | None, names: Iterable[str], runs: ReachTest
) -> bool:
    """Whether code that may run computes a name and finds one of ``names``: of a module, or of a class's objects."""
    found = [
        (other, lookup)
        for other in project.memo(_near, module)
        for lookup in project.memo(_lookups, other)
        if any(_finds(project, other, lookup, (module, owner), name) for name in names)
    ]
    return any(runs(other, lookup[0]) for other, lookup in found)


def is_collected(project: Project, module: ModuleNames, owner: Scope) -> bool:
    """Whether a base of a class knows the classes below it: ``Base.__subclasses__()``, ``__init_subclass__``."""
    return bool(bases_of(owner)) and project.memo(_is_collected, (module, owner))


def _is_collected(project: Project, asked: tuple[ModuleNames, Scope]) -> bool:
    above = [(module, scope) for module, scope in lineage(project, *asked) if scope is not asked[1]]
    if any("__init_subclass__" in scope.bindings or _has_own_metaclass(scope) for _, scope in above):
        return True
    others = [*modules_with(project, ("__subclasses__",))]
    return any(
        is_of_class(project, other, load.value, each)
        for other in others
        for load in other.attribute_loads.get("__subclasses__", ())
        for each in above
    )


def _has_own_metaclass(scope: Scope) -> bool:
    keywords = scope.node.keywords if isinstance(scope.node, ast.ClassDef) else []
    named = [(attribute_chain(item.value) or [""])[-1] for item in keywords if item.arg == "metaclass"]
    return any(name not in PLAIN_METACLASSES for name in named)


def _near(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """A module and those that can have it in hand: importers, theirs, and what imports by a text."""
    importers = importers_of(project, module)
    further = (other for item in importers for other in importers_of(project, item))
    by_text = modules_with(project, IMPORTING)
    found = dict.fromkeys((module, *importers, *further, *by_text))
    return tuple(other for other in found if not is_test(other.path))


def _finds(
    project: Project, other: ModuleNames, lookup: Lookup, asked: tuple[ModuleNames, Scope | None], name: str
) -> bool:
    _, holder, key = lookup
    if key is not None and not _may_be(project, other, key, name):
        return False
    module, owner = asked
    if owner is not None and is_of_class(project, other, holder, (module, owner)):
        return True
    holding = (each for each in (module, *importers_of(project, module)) if _holds(project, each, module, name))
    return any(is_module(project, other, holder, each) for each in holding)


def _holds(project: Project, other: ModuleNames, module: ModuleNames, name: str) -> bool:
    """Whether a module has a name of another one (or of its own), by its imports."""
    bindings = other.defined(name)
    if other is module or any(item.kind == "import" for item in bindings):
        return bool(bindings)
    return any(project.python_path(item, other.path) == module.path for item in other.star_imports)


def _may_be(project: Project, module: ModuleNames, key: ast.expr, name: str) -> bool:
    texts = known_texts(project, module, key) if isinstance(key, ast.Name | ast.Attribute) else None
    return name in texts if texts is not None else may_be_text(module, key, name)


def _lookups(_project: Project, module: ModuleNames) -> tuple[Lookup, ...]:
    found = (*_by_getattr(module), *_among_all(module), *_evaluated(module))
    return tuple(
        lookup
        for lookup in found
        if not isinstance(lookup[2], ast.Constant)
        and getattr(module.scope_of(lookup[0]).function.node, "name", "") not in DELEGATING
    )


def _by_getattr(module: ModuleNames) -> Iterator[Lookup]:
    for call in module.calls_by_name.get("getattr", ()):
        if len(call.args) >= 2:
            yield call, call.args[0], call.args[1]


def _among_all(module: ModuleNames) -> Iterator[Lookup]:
    """``globals()[name]``, ``vars(jobs).get(name)``, ``jobs.__dict__``, ``getmembers(jobs)``."""
    for name in (*OWN, *WHOLE):
        for call in module.calls_by_name.get(name, ()):
            if call.args or name in OWN:
                yield from _taken(module, call, call.args[0] if call.args else call)
    for load in module.attribute_loads.get("__dict__", ()):
        yield from _taken(module, load, load.value)


def _taken(module: ModuleNames, names: ast.expr, holder: ast.expr) -> Iterator[Lookup]:
    parent = module.parents[names]
    if isinstance(parent, ast.Subscript) and parent.value is names:
        if isinstance(parent.ctx, ast.Load):
            yield parent, holder, parent.slice
        return
    call = module.parents[parent] if isinstance(parent, ast.Attribute) else None
    if isinstance(call, ast.Call) and isinstance(parent, ast.Attribute) and parent.attr in ("get", "update"):
        yield from [(call, holder, call.args[0])] if parent.attr == "get" and call.args else []
    else:
        yield names, holder, None


def _evaluated(module: ModuleNames) -> Iterator[Lookup]:
    """``eval(name)``: all that the module has."""
    for call in module.calls_by_name.get("eval", ()):
        if isinstance(call.func, ast.Name) and call.args:
            yield call, call, call.args[0]


def is_served(project: Project, module: ModuleNames, owner: Scope | None, name: str, runs: ReachTest) -> bool:
    """Whether ``fire.Fire()`` makes a command of it: of all that its module has, or of what it is passed."""
    near = [other for other in project.memo(_near, module) if "fire" in other.imported_packages]
    served = [(other, call) for other in near for call in other.calls_by_name.get("Fire", ())]
    top = getattr(owner.node, "name", "") if owner is not None else name
    return any(
        (_is_component(project, other, call, (module, owner)) if call.args else _holds(project, other, module, top))
        and runs(other, call)
        for other, call in served
    )


def _is_component(
    project: Project, other: ModuleNames, call: ast.Call, asked: tuple[ModuleNames, Scope | None]
) -> bool:
    module, owner = asked
    parts = (node for node in ast.walk(call.args[0]) if isinstance(node, ast.Name | ast.Attribute))
    return owner is not None and any(is_of_class(project, other, node, (module, owner)) for node in parts)
