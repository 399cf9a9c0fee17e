"""Expressions that read a setting by its name, and the configuration files that hold such a setting.

A file counts where the setting's dotted name ends as the expression does *and* the code reads other keys that stand
beside it: ``config.dtype`` alone says nothing about a ``dtype:`` in some file.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from ...formats.text import TextEntry
from ...model import Edit, EditRefused
from ...purpose.files import CONFIG_ENDINGS, purpose_of
from ...purpose.imports import connected_modules
from ...python.bindings import only_value
from ...python.names import FunctionNode, ModuleNames, string_of
from ...python.scopes import positional
from ...python.settings_objects import is_called_as_settings, may_hold_settings
from ...source.documents import Document, FileKind
from ...source.project import Project
from ...torch.dtypes import Constant
from .configs import ConfigFile, config_files
from .hydra_picks import is_never_picked, is_said_over
from .launch_flags import programs_of, runs_one_of, truth_of
from .loaded_files import is_only_composed, loaders_of
from .program_files import file_in_code
from .source import ValueSource, entry_source

MAPPINGS = (FileKind.YAML, FileKind.JSON, FileKind.TOML)
ENOUGH_SIBLINGS = 2
MAX_PARTS = 8
"""Keys in each other; more are no way to a setting."""
TRUTHS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Read:
    """A setting that is read: ``hps.train.fp16_run`` has the parts ``train`` and ``fp16_run``."""

    module: ModuleNames
    parts: tuple[str, ...]
    of_environment: bool = False
    levels: int = 1
    """How many of the last parts are certainly keys of one mapping: both of ``config["train"]["dtype"]``."""
    owner: ast.expr | None = None
    """The object whose attribute or key is read."""

    @property
    def name(self) -> str:
        return self.parts[-1]


def read_of(module: ModuleNames, node: ast.expr) -> Read | None:
    """What setting an attribute, a subscript with a literal key, ``.get("x")`` or ``getattr(x, "y")`` reads.

    A section that a name stands for counts: ``section["dtype"]`` after ``section = config["model"]``.
    """
    parts: list[str] = []
    owners: list[ast.expr] = []
    current, levels = node, 0
    while len(parts) < MAX_PARTS:
        step = _step(module, current) or (_section(module, current) if parts else None)
        if step is None:
            break
        levels += levels == len(parts) and isinstance(current, ast.Subscript)
        part, current = step
        parts.append(part)
        owners.append(current)
    if not parts:
        return None
    if module.qualified(current) in ("os", "os.environ"):
        return Read(module, (parts[0],), of_environment=True)
    if not isinstance(current, ast.Name | ast.Call):
        return None
    parts.reverse()
    if isinstance(current, ast.Name) and current.id in ("self", "cls") and len(parts) > 1:
        parts = parts[1:]
    return Read(module, tuple(parts), levels=levels, owner=owners[0])


def is_of_settings(project: Project, read: Read) -> bool:
    """Whether what is read can be a setting at all: the type of a device is none."""
    return read.of_environment or read.owner is None or may_hold_settings(project, read.module, read.owner)


def _step(module: ModuleNames, node: ast.expr) -> tuple[str, ast.expr] | None:
    """The last part of a read and what it is read from."""
    if isinstance(node, ast.Attribute):
        return (node.attr, node.value) if module.qualified(node) != "os.environ" else None
    if isinstance(node, ast.Subscript):
        return _keyed(node.slice, node.value)
    if isinstance(node, ast.Call) and node.args:
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "getenv", "pop"):
            return _keyed(node.args[0], node.func.value)
        if isinstance(node.func, ast.Name) and node.func.id == "getattr" and len(node.args) >= 2:
            return _keyed(node.args[1], node.args[0])
    return None


def _section(module: ModuleNames, node: ast.expr) -> tuple[str, ast.expr] | None:
    """The key of the section that a name stands for, and what it is a section of; ``self.args`` is a whole."""
    value = only_value(module, node) if isinstance(node, ast.Name) else None
    if isinstance(value, ast.Attribute):
        is_part = is_called_as_settings(value.value) and not is_called_as_settings(ast.Name(value.attr))
        return _step(module, value) if is_part else None
    return _step(module, value) if isinstance(value, ast.Subscript | ast.Call) else None


def _keyed(key: ast.expr, owner: ast.expr) -> tuple[str, ast.expr] | None:
    return (text, owner) if (text := string_of(key)) else None


def entries_read(project: Project, read: Read) -> Iterator[ValueSource]:
    """The entries of the project's configuration files that ``read`` may read."""
    kinds = (FileKind.SHELL, FileKind.ENV) if read.of_environment else (*MAPPINGS, FileKind.SHELL)
    for config in config_files(project, (read.name,), kinds):
        if purpose_of(config.document.path).is_left_alone or (not config.is_shell and config.is_data):
            continue
        path = config.document.path
        is_seen = read.of_environment or is_loaded_for(project, config.document.path, read.module)
        is_near = not is_seen and _is_meant(project, path, read.module)
        is_others = not is_seen and not is_near and bool(loaders_of(project, config.document.path))
        for entry in config.text.entries:
            if not _names(entry, read) or not entry.is_scalar or (is_others and entry.kind == "pair"):
                continue
            if entry.kind in ("override", "flag"):
                if runs_one_of(project, config.document.path, entry.command, programs_of(project, read.module)):
                    yield _overriding(config, entry)
            elif is_only_composed(project, path) and (
                is_never_picked(project, path) or is_said_over(project, path, entry)
            ):
                continue
            elif (is_seen and (len(entry.key) == len(read.parts) or _is_of_group(config, entry, read))) or (
                (is_seen or len(entry.key) >= read.levels)
                and (_fits(project, config, entry, read) or (is_near and entry.key == read.parts))
            ):
                yield replace(entry_source(config, entry), is_guessed=not is_seen)


def _is_meant(project: Project, path: str, module: ModuleNames) -> bool:
    """Whether a program names a file of the same folder by a path that leads nowhere: ``configs/a.yaml``."""
    folder = posixpath.dirname(path)
    return any(folder in project.memo(_folders_meant, item) for item in connected_modules(project, module))


def _folders_meant(project: Project, module: ModuleNames) -> frozenset[str]:
    texts = [(node, node.value) for node in module.of_type(ast.Constant) if isinstance(node.value, str)]
    named = [(node, text) for node, text in texts if "/" in text and text.endswith(CONFIG_ENDINGS)]
    names = {posixpath.basename(text) for node, text in named if file_in_code(project, module, node) is None}
    return frozenset(posixpath.dirname(path) for path in project.paths if posixpath.basename(path) in names)


def _overriding(config: ConfigFile, entry: TextEntry) -> ValueSource:
    """What a command line sets in place of a file, read as the file is: ``training.use_amp=false`` is no text."""
    source = entry_source(config, entry)
    truth = TRUTHS.get(str(entry.value).lower()) if entry.kind == "override" else None
    return source if truth is None else replace(source, value=truth, respelling=partial(_as_word, config, entry))


def _as_word(config: ConfigFile, entry: TextEntry, value: Constant) -> Edit:
    truth = truth_of(value)
    if truth is None:
        raise EditRefused(f"{entry.raw} cannot become {value!r}")
    word = str(truth)
    return config.edit(config.text.set(entry, word.lower() if str(entry.value).islower() else word))


def entries_filling(project: Project, read: Read, function: FunctionNode) -> Iterator[ValueSource]:
    """The entries that fill a parameter of a function which is passed all of a file: the others fill its parameters."""
    taken = {item.arg for item in (*positional(function.args), *function.args.kwonlyargs)}
    for config in config_files(project, (read.name,), MAPPINGS):
        if purpose_of(config.document.path).is_left_alone or config.is_data:
            continue
        beside = {item.name for item in config.text.entries if item.key[:-1] == read.parts[:-1]}
        is_whole = len(beside & taken) > ENOUGH_SIBLINGS and (function.args.kwarg is not None or beside <= taken)
        is_seen = is_loaded_for(project, config.document.path, read.module)
        for entry in config.text.entries if is_seen or is_whole else ():
            if entry.key == read.parts and entry.is_scalar:
                yield replace(entry_source(config, entry), is_guessed=not is_seen)


def _is_of_group(config: ConfigFile, entry: TextEntry, read: Read) -> bool:
    """Whether a file's folders say what its keys leave out: ``cfg.model.dtype`` is ``dtype:`` in ``model/small.yaml``.

    So Hydra composes the files of a group, where the head of a file names no other package.
    """
    folders = tuple(config.document.path.split("/")[:-1])
    whole = (*folders, *map(str, entry.key))
    return len(entry.key) < len(read.parts) < len(whole) and _is_end(whole, read.parts) and not is_packaged(config)


def is_packaged(config: ConfigFile) -> bool:
    """Whether the head of a file says where its keys go."""
    return "@package" in config.document.text.partition("\n")[0]


def is_loaded_for(project: Project, path: str, module: ModuleNames) -> bool:
    """Whether a module that has to do with ``module`` is seen to load the file."""
    loaders = loaders_of(project, path)
    return bool(loaders) and any(item.document.path in loaders for item in connected_modules(project, module))


def _names(entry: TextEntry, read: Read) -> bool:
    if read.of_environment:
        return entry.kind == "assignment" and entry.name == read.name
    if entry.kind == "override" or (entry.kind == "flag" and "." in entry.name):
        parts = tuple(entry.name.lstrip("+-").split("."))
        return _is_end(parts, read.parts) or _is_end(read.parts, parts)
    if entry.kind != "pair":
        return False
    key = tuple(map(str, entry.key))
    return _is_end(key, read.parts) or _is_end(read.parts, key)


def _is_end(parts: tuple[str, ...], end: tuple[str, ...]) -> bool:
    return parts[-len(end) :] == end


def _fits(project: Project, config: ConfigFile, entry: TextEntry, read: Read) -> bool:
    """Whether the code reads what stands beside the entry, too."""
    owner = entry.key[:-1]
    siblings = {
        item.name
        for item in config.text.entries
        if item.key[:-1] == owner and item.document == entry.document and item.name != entry.name
    }
    siblings = {name for name in siblings if len(name) > 1}
    if not siblings:
        return min(len(read.parts), len(entry.key)) > 1  # ``type`` alone, as each schema has it, is nobody's setting
    wanted = min(ENOUGH_SIBLINGS if len(read.parts) == 1 else 1, len(siblings))
    seen: set[str] = set()
    for module in connected_modules(project, read.module):
        seen |= siblings & names_read(module)
        if len(seen) >= wanted:
            return True
    return False


def names_read(module: ModuleNames) -> frozenset[str]:
    """Every attribute and literal key that ``module`` reads."""
    return module.document.fact(_names_read)


def _names_read(document: Document) -> frozenset[str]:
    found: set[str] = set()
    for node in ast.walk(document.tree):
        if isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            found.add(str(node.slice.value))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            found.add(str(node.args[0].value))
    return frozenset(found)
