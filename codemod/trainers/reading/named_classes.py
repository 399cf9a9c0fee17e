"""What configurations pass to the classes that they name by a path: ``_target_: runners.Trainer``, ``amp: true``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from ...python.callers import heirs_of, own_init
from ...python.names import ModuleNames
from ...source.documents import FileKind
from ...source.project import Project
from .configs import ConfigFile, TextEntry, config_files
from .hydra_files import extended_by
from .launch_flags import runs_one_of
from .loaded_files import loaders_of
from .source import ValueSource, entry_source

CLASS_KEYS = ("target", "_target_", "class_path")
"""Keys whose values name a class or a function by its dotted path."""
UNDER = ("params", "init_args", "kwargs")
"""Keys under which its arguments stand, where they are not beside the path."""
Section: TypeAlias = tuple[ConfigFile, int, tuple[str | int, ...]]
"""A mapping of a configuration: the document of the file, and its key."""


def arguments_named(
    project: Project, module: ModuleNames, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str
) -> Iterator[ValueSource]:
    """The entries of configurations that give a parameter of a class's ``__init__``, or of a function, its value."""
    for config, place, wanted in _told(project, module, function, parameter):
        is_seen = bool(loaders_of(project, config.document.path))
        for entry in config.text.entries:
            if entry.key in wanted and entry.document == place.document and entry.is_scalar:
                yield replace(entry_source(config, entry), is_guessed=not is_seen)
        yield from _said_over(project, config.document.path, wanted)


def sections_named(
    project: Project, module: ModuleNames, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str
) -> Iterator[Section]:
    """The sections of files that are seen to be loaded which such a parameter is given as a whole; also one that a file
    leaves out, where a launch line may say something of it.
    """
    for config, place, wanted in _told(project, module, function, parameter):
        found = [item for item in config.text.entries if item.key in wanted and item.document == place.document]
        if loaders_of(project, config.document.path):
            key = found[0].key if found else (*place.key[:-1], parameter)
            yield config, place.document, _meant(found[0].value) or key if found else key


def entries_below(project: Project, section: Section, name: str) -> Iterator[ValueSource]:
    """What a section says under a name, and what launch lines say over that."""
    config, document, above = section
    for entry in config.text.entries:
        if entry.key == (*above, name) and entry.document == document and entry.is_scalar:
            yield entry_source(config, entry)
    yield from _said_over(project, config.document.path, {(*above, name)})


def holds(section: Section, name: str) -> bool:
    """Whether a section says something under a name."""
    config, document, above = section
    return any(item.key == (*above, name) and item.document == document for item in config.text.entries)


def _meant(value: object) -> tuple[str, ...]:
    """The section that a value stands for: ``optim: ${shared.optim}``."""
    path = value[2:-1] if isinstance(value, str) and value.startswith("${") and value.endswith("}") else ""
    parts = tuple(path.split("."))
    return parts if all(part.isidentifier() for part in parts) else ()


def _told(
    project: Project, module: ModuleNames, function: ast.FunctionDef | ast.AsyncFunctionDef, parameter: str
) -> Iterator[tuple[ConfigFile, TextEntry, set[tuple[str | int, ...]]]]:
    """Where configurations name what a function makes, and the keys that may stand there for a parameter of it."""
    scope = module.scope_of(function)
    owner = scope.node if isinstance(scope.node, ast.ClassDef) else None
    if owner is not None and function.name != "__init__":
        return
    heirs = heirs_of(project, module, owner) if owner is not None else ()
    below = [(other.path, heir.name) for other, heir in heirs if own_init(heir) is None]
    named = [(module.path, owner.name if owner is not None else function.name), *below]
    for config, place in (found for each in named for found in project.fact(_places).get(each, ())):
        above = place.key[:-1]
        yield config, place, {(*above, parameter), *((*above, under, parameter) for under in UNDER)}


def _said_over(project: Project, path: str, wanted: Collection[tuple[str | int, ...]]) -> Iterator[ValueSource]:
    """What launch lines of the programs that load a file say over such an entry: ``runner.amp=float16``.

    The folders of a file are what the names of its keys begin with.
    """
    folders, programs = path.split("/")[:-1], set(loaders_of(project, path))
    wholes = [(len(key), (*folders, *map(str, key))) for key in wanted]
    for config in config_files(project, {str(key[-1]) for key in wanted}, (FileKind.SHELL,)):
        for entry in config.text.entries if programs else ():
            parts = tuple(entry.name.lstrip("+").split(".")) if entry.kind == "override" else ()
            is_said = any(size <= len(parts) and whole[-len(parts) :] == parts for size, whole in wholes)
            if is_said and runs_one_of(project, config.document.path, entry.command, programs):
                yield entry_source(config, entry)


def _places(project: Project) -> Mapping[tuple[str, str], list[tuple[ConfigFile, TextEntry]]]:
    """By file and name where a class or function is named."""
    found: dict[tuple[str, str], list[tuple[ConfigFile, TextEntry]]] = {}
    for config in config_files(project, CLASS_KEYS, (FileKind.YAML, FileKind.JSON)):
        for entry in config.text.entries if not config.is_shell and not config.is_data else ():
            if entry.key and entry.key[-1] in CLASS_KEYS and isinstance(entry.value, str) and "." in entry.value:
                holder, _, name = entry.value.rpartition(".")
                path = project.python_path(holder)
                if path is not None:
                    found.setdefault((path, name), []).append((config, entry))
    for listed in found.values():
        tops = {config.document.path: entry for config, entry in listed if len(entry.key) == 1}
        listed += [(config, tops[base]) for config, base in project.fact(_extending) if base in tops]
    return found


def _extending(project: Project) -> list[tuple[ConfigFile, str]]:
    """Each configuration that extends others by a defaults list, with each of these."""
    configs = (item for item in config_files(project, ("defaults",), (FileKind.YAML,)) if not item.is_shell)
    return [(config, base) for config in configs for base in extended_by(project, config.document.path)]
