"""Which files the parsers of the project's programs read."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ...formats.text import CommandLine
from ...purpose.files import CONFIG_ENDINGS
from ...source.project import Project
from ..parsers.interface import Interface
from ..parsers.programs import interface_of
from .program_files import command_lines, file_named, script_of, words_of_script
from .shown_lines import instructed_files


def interface_of_line(project: Project, path: str, command: CommandLine) -> Interface | None:
    """What the program that a command line of the file ``path`` starts accepts; None where it is not seen."""
    script = script_of(project, path, command.script)
    return interface_of(project, script) if script is not None else None


def interfaces_reading(project: Project, path: str) -> tuple[Interface, ...]:
    """The programs whose parser is seen to take its values from the file ``path``."""
    return project.fact(_readers).get(path, ())


def interfaces_beside(project: Project, path: str) -> tuple[Interface, ...]:
    """Those of the file, or, where nothing names it, of the files of its kind in the same folder."""
    return interfaces_reading(project, path) or project.fact(_readers_by_folder).get(_kin(path), ())


def _readers_by_folder(project: Project) -> Mapping[tuple[str, str], tuple[Interface, ...]]:
    found: dict[tuple[str, str], dict[str, Interface]] = {}
    for path, interfaces in project.fact(_readers).items():
        found.setdefault(_kin(path), {}).update({item.path: item for item in interfaces})
    return {kin: tuple(items.values()) for kin, items in found.items()}


def _kin(path: str) -> tuple[str, str]:
    folder, name = posixpath.split(path)
    return folder, posixpath.splitext(name)[1]


def _readers(project: Project) -> Mapping[str, tuple[Interface, ...]]:
    found: dict[str, dict[str, Interface]] = {}
    for interface, path in _reads(project):
        found.setdefault(path, {}).setdefault(interface.path, interface)
    return {path: tuple(items.values()) for path, items in found.items()}


def _reads(project: Project) -> Iterator[tuple[Interface, str]]:
    """Every file that a program's parser reads: named by a launch line, by instructions, or by the code itself."""
    for config, command in command_lines(project):
        interface = interface_of_line(project, config.document.path, command)
        if interface is not None and interface.is_typed:
            for word in _files_of(interface, words_of_script(command)):
                path = file_named(project, config.document.path, word)
                if path is not None:
                    yield interface, path
    for script, path in instructed_files(project):
        interface = interface_of(project, script) if script and path.endswith(CONFIG_ENDINGS) else None
        if interface is not None and interface.is_typed and interface.file_flags:
            yield interface, path
    for script in _scripts(project):
        interface = interface_of(project, script)
        for name in interface.files if interface is not None else ():
            path = file_named(project, script, name)
            if interface is not None and path is not None:
                yield interface, path


def _files_of(interface: Interface, words: Sequence[str]) -> Iterator[str]:
    for before, word in pairwise(("", *words)):
        flag, equals, value = word.partition("=")
        if not word.endswith(CONFIG_ENDINGS):
            continue
        if flag.startswith("-") and equals:
            if flag in interface.file_flags:
                yield value
        elif before in interface.file_flags or (not before.startswith("-") and "" in interface.file_flags):
            yield word


def _scripts(project: Project) -> list[str]:
    """Modules in which a parser over classes may be made."""
    return project.python_paths(("parse_yaml_file", "parse_json_file", "parse_dict"))
