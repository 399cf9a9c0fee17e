"""The numbers that a setting is given in code, options, configuration files and launch lines."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.purpose.imports import reached_from
from ...codemod.purpose.table_entries import entry_of, is_changed, option_read
from ...codemod.python.creations import creations_of
from ...codemod.python.functions import class_of
from ...codemod.python.names import ModuleNames
from ...codemod.python.numbers import number_of
from ...codemod.python.options import Option, options_in
from ...codemod.source.project import Project
from ...codemod.trainers.reading.command_options import declared_options, values_given
from ...codemod.trainers.reading.links import sources
from ...codemod.trainers.reading.setting_reads import is_of_settings, read_of

CONVERTING = ("float", "int")
MAX_FILES = 60
"""Files that a script imports, near ones first, in which the fields of its configuration are looked for."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A number, and where it is written."""

    value: float
    place: Place


def stated_numbers(project: Project, module: ModuleNames, node: ast.expr, name: str) -> tuple[Stated, ...]:
    """Every number that ``node`` can be, called ``name`` for people; empty where any value is not a number."""
    value = number_of(project, module, node) if not is_changed(module, node) else None
    if value is None and isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func) in CONVERTING:
        return stated_numbers(project, module, node.args[0], name)
    if value is not None:
        return (Stated(value, module.place(node, f"{name} is {value:g} here")),) if math.isfinite(value) else ()
    entry = entry_of(project, module, node)
    if entry is not None:
        return stated_numbers(project, *entry, name)
    found = tuple(_of_sources(project, module, node, name))
    return tuple(item for item in found if item is not None) if None not in found else ()


def _of_sources(project: Project, module: ModuleNames, node: ast.expr, name: str) -> Iterator[Stated | None]:
    """What launch lines and files give; where none does, the defaults of the options."""
    options = _options_read(project, module, node)
    read = [item for item in sources(project, module, node) if not item.is_guessed]  # the results of another program
    given = read or [item for each in options for item in values_given(project, each)]
    for source in (item for item in given if item.value is not None):
        value = number_in(source.value)
        yield Stated(value, source.place(f"{name} is {value:g} here")) if value is not None else None
    for option in () if given else options:
        if option.default is not None:
            value = number_of(project, option.module, option.default)
            place = option.module.place(option.default, f"{name} is {value:g} here") if value is not None else None
            yield Stated(value, place) if value is not None and place is not None else None


def _options_read(project: Project, module: ModuleNames, node: ast.expr) -> Sequence[Option]:
    """The options of a command line that ``args.lr`` reads."""
    if isinstance(node, ast.Name):
        bindings = module.scope_of(node).lookup(node.id)
        value = bindings[0].value if len(bindings) == 1 else None
        return _options_read(project, module, value) if isinstance(value, ast.Attribute) else ()
    read = read_of(module, node) if isinstance(node, ast.Attribute) else None
    name = read.name if read is not None and not read.of_environment else option_read(module, node)
    if name is None or (read is not None and not is_of_settings(project, read)):
        return ()
    near = declared_options(project, module, name)
    far = () if near else reached_from(project, [module], MAX_FILES)
    found = [*near, *(item for other in far for item in options_in(project, other).get(name, ()))]
    own = _classes_of(project, module, node) if isinstance(node, ast.Attribute) else frozenset()
    return [item for item in found if item.kind == "option" or item.flags or _is_constant_of(item, own)]


def _classes_of(project: Project, module: ModuleNames, node: ast.Attribute) -> frozenset[ast.AST]:
    """The classes of the project whose constants an attribute reads; none where something is stored under its name."""
    made = [(item.module, item.call.func) for item in creations_of(project, module, node.value)]
    asked = [*made, (module, node.value)]
    stores = [item for holder, _ in asked for item in holder.attribute_stores.get(node.attr, ())]
    if any(receiver is not None for receiver, *_ in stores):
        return frozenset()
    found = [class_of(project, *item) for item in asked]
    return frozenset(item[1].node for item in found if item is not None)


def _is_constant_of(option: Option, classes: frozenset[ast.AST]) -> bool:
    """``lr = 1e-5`` in the body of one of these classes, where nothing else in its file is stored under that name."""
    stores = option.module.attribute_stores.get(option.name, ())
    return len(stores) == 1 and option.module.parents.get(option.node) in classes


def number_in(value: object) -> float | None:
    """The number that a constant or a text of a setting is."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(_default_of(value) if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _default_of(text: str) -> str:
    """``2e-5`` of a shell's ``${LR:-2e-5}``; other texts as they are."""
    inner = text.removeprefix("${").removesuffix("}")
    return inner.partition(":-")[2] if text.startswith("${") and ":-" in inner else text


def largest(numbers: tuple[Stated, ...]) -> Stated | None:
    """The largest of several numbers."""
    return max(numbers, key=lambda item: item.value, default=None)
