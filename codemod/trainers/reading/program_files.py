"""Which of the project's programs a command line starts, and which files the parser of a program reads."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ...formats.text import CommandLine
from ...source.documents import FileKind
from ...source.project import Project
from ..parsers.interface import Interface
from ..parsers.programs import interface_of
from .configs import config_files

LAUNCHING = ("python", "accelerate", "torchrun", "deepspeed", "train", "launch", "fabric", "lightning", "run")
"""Words of files that start programs."""
CONFIG_ENDINGS = (".yaml", ".yml", ".json", ".toml")


def interface_of_line(project: Project, path: str, command: CommandLine) -> Interface | None:
    """What the program that a command line of the file ``path`` starts accepts; None where it is not seen."""
    script = script_of(project, path, command.script)
    return interface_of(project, script) if script is not None else None


def script_of(project: Project, path: str, script: str) -> str | None:
    """The project's file behind the script or module of a command line."""
    if script.endswith(".py"):
        return file_named(project, path, script)
    if script and all(part.isidentifier() for part in script.split(".")):
        return project.python_path(f"{script}.__main__") or project.python_path(script)
    return None


def words_of_script(command: CommandLine) -> tuple[str, ...]:
    """The words behind the script: those before it are its launcher's."""
    words = command.words
    return words[words.index(command.script) + 1 :] if command.script in words else words


def file_named(project: Project, near: str, word: str) -> str | None:
    """The project's file that a word on a command line (or in a file) names."""
    base, _, inner = word.partition("/")
    if base.startswith("$") and "/" in inner:  # ${ROOT}/tools/train.py: the folder of a checkout
        word = inner
    if not word or "$" in word:
        return None
    if word.startswith("/"):
        return _of_checkout(project, word)
    files = project.fact(_files_by_name)
    name = posixpath.normpath(word)
    listed = files.get(name.rpartition("/")[2], ())
    base = posixpath.dirname(near)
    while True:  # scripts in a folder of their own are started from one above
        path = posixpath.normpath(posixpath.join(base, word))
        if path in listed:
            return path
        if not base:
            break
        base = posixpath.dirname(base)
    endings = [path for path in listed if path.endswith(f"/{name}")]
    is_plain = "/" in word or word.endswith(".py")  # ``cd src && python train.py``
    return endings[0] if len(endings) == 1 and is_plain else None


def _of_checkout(project: Project, word: str) -> str | None:
    """``/home/me/project/conf/ds.json``: the folders before the project's own are those of somebody's machine.

    A name alone may be another file's, unless the script of a command line lies in the same folder.
    """
    listed = project.fact(_files_by_name).get(word.rpartition("/")[2], ())
    parts = posixpath.normpath(word).strip("/").split("/")
    found = next((path for path in ("/".join(parts[at:]) for at in range(1, len(parts))) if path in listed), None)
    if found is None or "/" in found or found.endswith(".py"):
        return found
    return found if posixpath.dirname(word) in project.fact(_checkouts) else None


def _checkouts(project: Project) -> frozenset[str]:
    """The folders of other machines in which command lines start the project's scripts."""
    found: set[str] = set()
    for config in config_files(project, LAUNCHING, (FileKind.SHELL, FileKind.ENV)):
        for command in config.text.commands if config.is_shell else ():
            path = _of_checkout(project, command.script) if command.script.startswith("/") else None
            if path is not None and command.script.endswith(f"/{path}"):
                found.add(command.script[: -len(path) - 1])
    return frozenset(found)


def _files_by_name(project: Project) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for path in project.paths:
        found.setdefault(path.rpartition("/")[2], []).append(path)
    return found


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
    """Every file that a program's parser reads: named by a launch line, or by the code itself."""
    for config in config_files(project, LAUNCHING, (FileKind.SHELL, FileKind.ENV)):
        for command in config.text.commands if config.is_shell else ():
            interface = interface_of_line(project, config.document.path, command)
            if interface is not None and interface.is_typed:
                for word in _files_of(interface, words_of_script(command)):
                    path = file_named(project, config.document.path, word)
                    if path is not None:
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
