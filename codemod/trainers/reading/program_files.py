"""Which of the project's programs a command line starts, and which file a word of it names."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from ...formats.shell_launchers import FILE_OF_LAUNCHER
from ...formats.text import CommandLine
from ...purpose.files import CONFIG_ENDINGS
from ...python.names import ModuleNames, last_name, string_of
from ...source.documents import FileKind
from ...source.project import Project
from .configs import ConfigFile, config_files

LAUNCHING = ("python", "accelerate", "torchrun", "deepspeed", "train", "launch", "fabric", "lightning", "run")
"""Words of files that start programs."""
VARIABLE = re.compile(r"\$(?:\{[^}]*\}|\w+)|\*+")
"""A variable of a shell in a word, or what stands for any name: ``conf/*.yaml``."""
MAX_NAME = 300
"""Characters of a string that can name a file."""
MAX_FOLDERS = 8
"""Folders that a name is joined to; a longer path is none that code writes down."""
FOLDER = re.compile(r"\$(?:\w+|\{\w+(?::?-.*)?\}|\(.*\))/")
"""A folder of a checkout that the shell knows: ``${ROOT}/``, ``$(dirname "$0")/``."""


def command_lines(project: Project, words: Iterable[str] = LAUNCHING) -> Iterator[tuple[ConfigFile, CommandLine]]:
    """The command lines of files for shells that hold one of the words, each with its text."""
    for config in config_files(project, words, (FileKind.SHELL, FileKind.ENV)):
        yield from ((config, command) for command in config.text.commands if config.is_shell)


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


def configs_named(words: Iterable[str]) -> Iterator[str]:
    """The configurations that a command line names: by their endings, or with the launcher's option for its own."""
    for before, word in pairwise(("", *words)):
        flag, _, value = word.rpartition("=")
        if word.endswith(CONFIG_ENDINGS) or (flag or before) in FILE_OF_LAUNCHER:
            yield value


def file_named(project: Project, near: str, word: str) -> str | None:
    """The project's file that a word on a command line (or in a file) names."""
    leading = FOLDER.match(word)
    inner = word[leading.end() :] if leading is not None else ""
    if "/" in inner or inner.endswith(".py"):
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


def file_in_code(project: Project, module: ModuleNames, node: ast.expr) -> str | None:
    """The configuration file that a string names; of ``f"conf/{name}.json"`` the only one that it can name.

    Also with the folders that it is joined to: ``ROOT / "conf" / "small.yaml"``.
    """
    if isinstance(node, ast.Constant):
        word = node.value if isinstance(node.value, str) and node.value.endswith(CONFIG_ENDINGS) else ""
        if not word or len(word) >= MAX_NAME:
            return None
        word = "/".join([*_folders_before(module, node), word])
        if "$_" not in word:
            return file_named(project, module.path, word)
    else:
        parts = node.values if isinstance(node, ast.JoinedStr) else ()
        word = "".join(str(item.value) if isinstance(item, ast.Constant) else "$_" for item in parts)
    found = files_matching(project, module.path, word) if "$_" in word else ()
    return found[0] if len(found) == 1 else None


def _folders_before(module: ModuleNames, node: ast.Constant) -> list[str]:
    """The folders that a file's name is joined to; a variable is ``$_``, but where all begins it may be any folder."""
    parent = module.parents[node]
    joined: list[ast.expr] = []
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div) and parent.right is node:
        left: ast.expr = parent.left
        while isinstance(left, ast.BinOp) and isinstance(left.op, ast.Div) and len(joined) < MAX_FOLDERS:
            joined.insert(0, left.right)
            left = left.left
        is_path = isinstance(left, ast.Call) and last_name(left.func) == "Path" and len(left.args) == 1
        joined.insert(0, left.args[0] if is_path and isinstance(left, ast.Call) else left)
    elif isinstance(parent, ast.Call) and last_name(parent.func) == "join" and parent.args[-1:] == [node]:
        joined = parent.args[:-1]
    words = [text if (text := string_of(item)) is not None else "$_" for item in joined]
    return words[1:] if words[:1] == ["$_"] else words


def files_named(project: Project, near: str, word: str) -> tuple[str, ...]:
    """The same, and every configuration file that a word with variables or ``*`` can name: ``cpt_${task}.yaml``."""
    found = file_named(project, near, word)
    return (found,) if found is not None else files_matching(project, near, word)


def files_matching(project: Project, near: str, word: str) -> tuple[str, ...]:
    """The project's configuration files that a word with variables can name: ``recipes/cpt_${task}.yaml``."""
    base, _, inner = word.partition("/")
    word = inner if base.startswith("$") and inner else word
    if not ("$" in word or "*" in word) or not word.endswith(CONFIG_ENDINGS) or not word.strip("$"):
        return ()
    parts = [re.escape(part) for part in VARIABLE.split(posixpath.normpath(word))]
    pattern = re.compile("[^/]*".join(parts))
    folders = [posixpath.dirname(near)]
    while folders[-1]:
        folders.append(posixpath.dirname(folders[-1]))
    for folder in folders:
        start = f"{folder}/" if folder else ""
        listed = (path for path in project.paths if path.startswith(start))
        found = tuple(path for path in listed if pattern.fullmatch(path, len(start)))
        if found:
            return found
    return ()


def _of_checkout(project: Project, word: str) -> str | None:
    """``/home/me/project/conf/ds.json``: the folders before the project's own are those of somebody's machine.

    A name alone may be another file's, unless the script of a command line lies in the same folder.
    """
    found = _own_end(project, word)
    if found is None or "/" in found or found.endswith(".py"):
        return found
    return found if posixpath.dirname(word) in project.fact(_checkouts) else None


def _own_end(project: Project, word: str) -> str | None:
    """The longest end of a path that names a file of the project."""
    listed = project.fact(_files_by_name).get(word.rpartition("/")[2], ())
    parts = posixpath.normpath(word).strip("/").split("/")
    return next((path for path in ("/".join(parts[at:]) for at in range(1, len(parts))) if path in listed), None)


def _checkouts(project: Project) -> frozenset[str]:
    """The folders of other machines in which command lines start the project's scripts."""
    found: set[str] = set()
    for _, command in command_lines(project):
        path = _own_end(project, command.script) if command.script.startswith("/") else None
        is_known = path is not None and ("/" in path or path.endswith(".py"))
        if path is not None and is_known and command.script.endswith(f"/{path}"):
            found.add(command.script[: -len(path) - 1])
    return frozenset(found)


def _files_by_name(project: Project) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = {}
    for path in project.paths:
        found.setdefault(path.rpartition("/")[2], []).append(path)
    return found
