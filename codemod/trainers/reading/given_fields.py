"""What the objects of a class are given for one of its fields: by who makes them, and by what overwrites it later.

``TrainConfig(dtype="bf16")``, ``TrainConfig(**settings)``, ``config.dtype = "bf16"``, ``replace(config, dtype="x")``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ...purpose.computed_names import is_of_class
from ...purpose.files import is_test
from ...purpose.set_elsewhere import surely_given
from ...python.brought_entries import brought_keywords
from ...python.class_fields import declared_fields
from ...python.keywords import stores_in
from ...python.names import ModuleNames, modules_with, resolve
from ...python.options import Option
from ...python.paths import guards, position
from ...python.trace import Domain, Trace, trace
from ...python.trace_steps import TraceGap
from ...source.project import Project
from .command_options import declared_options
from .mapping_items import DICTIONARIES, fills, is_of_globals, values_under
from .named_classes import Section, entries_below, holds, sections_named
from .setting_reads import Read
from .source import SourceKind, ValueSource

REPLACING = ("dataclasses.replace", "attr.evolve", "attrs.evolve", "copy.replace")
MAIN = "__name__"
FieldStore: TypeAlias = "tuple[ModuleNames, ast.expr, ast.expr]"
"""An object whose field is stored, and the value."""
GivenValue: TypeAlias = "tuple[ModuleNames, ast.expr, SourceKind]"
"""An expression that gives a field its value: as an argument, or as one of several that may count."""


@dataclass(frozen=True, slots=True)
class GivenField:
    values: tuple[GivenValue, ...] = ()
    leaves_default: bool = True
    """Whether some object may keep what the class itself says."""


def given_to_field(project: Project, option: Option, read: Read) -> GivenField:
    """What the field that an option is gets from outside of its class; nothing for other options.

    Of several classes with such a field only what is known to be the one that is read counts, but for plain calls.
    """
    owner = option.module.scope_of(option.node).node if option.kind == "field" else None
    if not isinstance(owner, ast.ClassDef):
        return GivenField()
    place = (option.module, option.module.scopes[owner])
    is_another = read.owner is not None and is_of_class(project, read.module, read.owner, place) is False
    return project.memo(_given, (option, owner, is_another))


def _given(project: Project, asked: tuple[Option, ast.ClassDef, bool]) -> GivenField:
    option, owner, is_another = asked
    values: list[GivenValue] = []
    bare: list[tuple[ModuleNames, ast.Call]] = []
    made = 0
    for module in modules_with(project, (owner.name,)):
        for call in module.calls_by_name.get(owner.name, ()) if not is_test(module.path) else ():
            made += 1
            passed = [*_named(module, call, option.name)] or (
                [] if is_another else [*_passed(project, module, call, owner, option.name)]
            )
            values += passed
            bare += [] if any(kind == "argument" for *_, kind in passed) else [(module, call)]
    stores = [] if is_another else _stores(project, option, owner)
    kept = [(module, call) for module, call in bare if not _is_overwritten(module, call, stores)]
    kept = [(module, call) for module, call in kept if not _is_filled(project, module, call, option.name)]
    holders = {module.path for module, _ in kept}
    for module, holder, value in stores:
        always = module.path not in holders and not _is_tested(module, holder)
        values.append((module, value, "argument" if always else "field"))
    return GivenField(tuple(values), not made or bool(kept))


def entries_given(project: Project, option: Option, read: Read) -> Iterator[ValueSource]:
    """What configurations give a field whose object is made of a section: ``AmpConf(**self.amp)`` in a class that a
    file names by its path.

    Where the class of the object that is read is not known, it has to be called as the section is.
    """
    owner = option.module.scope_of(option.node).node if option.kind == "field" else None
    if isinstance(owner, ast.ClassDef) and read.owner is not None:
        is_own = is_of_class(project, read.module, read.owner, (option.module, option.module.scopes[owner]))
        for section in _sections_of(Trace(project, SECTIONS), owner) if is_own is not False else ():
            if is_own or section[2][-1:] == read.parts[-2:-1]:
                yield from entries_below(project, section, option.name)


def _sections_of(question: Trace[Section], owner: ast.ClassDef) -> Iterator[Section]:
    """The sections of which objects of a class are made as a whole."""
    for module in modules_with(question.project, (owner.name,)):
        for call in module.calls_by_name.get(owner.name, ()) if not is_test(module.path) else ():
            yield from _unpacked(question, module, call)


def _unpacked(question: Trace[Section], module: ModuleNames, call: ast.Call) -> Iterator[Section]:
    for value in (item.value for item in call.keywords if item.arg is None):
        yield from question.of(module, value)


def _is_filled(project: Project, module: ModuleNames, call: ast.Call, name: str) -> bool:
    """Whether a call makes an object of a section, and each that it can be has a value for a field."""
    found = [*_unpacked(Trace(project, SECTIONS), module, call)]
    return bool(found) and all(holds(section, name) for section in found)


def _section(question: Trace[Section], module: ModuleNames, node: ast.expr) -> Iterable[Section] | None:
    """Of an attribute, the section of that name in those of which its object is made."""
    if not isinstance(node, ast.Attribute):
        return None
    found: list[Section] = []
    for option in declared_options(question.project, module, node.attr):
        owner = option.module.scope_of(option.node).node if option.kind == "field" else None
        if isinstance(owner, ast.ClassDef):
            place = (option.module, option.module.scopes[owner])
            if is_of_class(question.project, module, node.value, place):
                above = _sections_of(question, owner)
                found += [(config, document, (*key, node.attr)) for config, document, key in above]
    return found or None


def _given_section(question: Trace[Section], module: ModuleNames, node: ast.AST, why: TraceGap) -> Iterator[Section]:
    function = module.parents.get(module.parents.get(node, node)) if isinstance(node, ast.arg) else None
    if isinstance(node, ast.arg) and isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from sections_named(question.project, module, function, node.arg)


SECTIONS: Domain[Section] = Domain(_section, _given_section, follows_returns=False)
"""The sections of configurations that an expression is."""


def _named(module: ModuleNames, call: ast.Call, name: str) -> Iterator[GivenValue]:
    yield from ((module, item.value, "argument") for item in call.keywords if item.arg == name)


def _passed(
    project: Project, module: ModuleNames, call: ast.Call, owner: ast.ClassDef, name: str
) -> Iterator[GivenValue]:
    """What a call of the class passes for a field without naming it: in its turn, or in a dictionary."""
    fields = [*declared_fields(owner)] if not owner.bases else []
    turn = fields.index(name) if name in fields else len(call.args)
    if turn < len(call.args):
        if not any(isinstance(item, ast.Starred) for item in call.args):
            yield module, call.args[turn], "argument"
        return
    unpacked = [item.value for item in call.keywords if item.arg is None]
    found = brought_keywords(project, module, call) if unpacked else None
    if found is not None:
        if name in found.values:
            yield module, found.values[name], "argument"
        for table in unpacked if name in found.uncertain else ():
            stores = stores_in(module, table) if isinstance(table, ast.Name) else ()
            yield from ((module, value, "field") for key, value, _ in stores if key == name and value is not None)
        return
    for holder, table in (item for value in unpacked for item in trace(project, module, value, DICTIONARIES)):
        known = values_under(holder, table, name) if not is_of_globals(table) else []
        if len(known) == 1 and not any(fills(item, name) for item in (holder, module)):
            yield holder, known[0], "argument"


def _is_tested(module: ModuleNames, node: ast.AST) -> bool:
    """Whether a test decides that code runs, other than the one that asks whether the module is started."""
    tests = (guard.test for guard in guards(module, node) if guard.leaving is None)
    return any(not any(isinstance(item, ast.Name) and item.id == MAIN for item in ast.walk(test)) for test in tests)


def _is_overwritten(module: ModuleNames, call: ast.Call, stores: Sequence[FieldStore]) -> bool:
    """Whether the field of what a call makes is stored before anything else gets the object."""
    holders = {holder for there, holder, _ in stores if there is module}
    if call in holders:
        return True
    made = module.statement_of(call)
    target = made.targets[0] if isinstance(made, ast.Assign) and made.value is call else None
    bound = module.bindings_of(target) if isinstance(target, ast.Name) else []
    if not isinstance(target, ast.Name) or len(bound) != 1:
        return False
    for load in sorted(module.name_loads.get(target.id, ()), key=position):
        if module.scope_of(load).lookup(target.id) is not bound or position(load) < position(call):
            continue
        if load in holders:
            return module.parents.get(module.statement_of(load)) is module.parents.get(made)
        if not isinstance(module.parents.get(load), ast.Attribute):
            return False
    return False


def _stores(project: Project, option: Option, owner: ast.ClassDef) -> list[FieldStore]:
    """``config.dtype = "x"``, ``setattr(config, "dtype", "x")``, ``dataclasses.replace(config, dtype="x")``."""
    place = (option.module, option.module.scopes[owner])
    found = [*surely_given(project, *place, option.name)]
    for module in modules_with(project, (option.name,), ("replace", "evolve")):
        calls = (call for name in ("replace", "evolve") for call in module.calls_by_name.get(name, ()))
        for call in calls if not is_test(module.path) else ():
            given = [item.value for item in call.keywords if item.arg == option.name]
            is_one = bool(given and call.args) and resolve(project, module, call.func) in REPLACING
            if is_one and is_of_class(project, module, call.args[0], place):
                found.append((module, call.args[0], given[0]))
    return found
