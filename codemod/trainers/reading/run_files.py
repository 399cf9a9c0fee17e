"""What a run brings along beside its script and the YAML and JSON files that its command line names.

Python configurations with the files that they build on, what Hydra composes, and the modules in which classes are that
a configuration names by their dotted path (``_target_: project.runners.Trainer``).
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ...formats.text import CommandLine
from ...purpose.computed_names import IMPORTING, imported_below, is_below
from ...purpose.files import CONFIG_ENDINGS, purpose_of
from ...purpose.imports import importers_of, reached_from
from ...python.names import ModuleNames, last_name, modules_at, modules_with, names_of, string_of
from ...source.facts import fact
from ...source.module_paths import absolute_module
from ...source.project import Project
from ..parsers.programs import interface_of
from .configs import ConfigFile
from .hydra_files import composed, config_at, mains_of
from .loaded_files import loaders_of
from .named_classes import CLASS_KEYS
from .program_files import file_named, words_of_script
from .programs_started import is_program

BASES = ("_base_", "_BASE_")
"""Keys and variables that name the files which a configuration builds on."""
HALF_WORDS = ("autocast", "float16", "half")
"""A file without any of these asks for no 16 bits."""
OF_A_PLACE = ("locate", "spec_from_file_location", "SourceFileLoader")
"""Functions that import what a dotted name, or the place of a file, leads to."""
MAX_BASES = 20
MAX_NAME = 300
"""Characters of a string that can name a file."""
MAX_CLASSES = 200
MAX_MODULES = 40


@dataclass(frozen=True, slots=True)
class RunFile:
    """A configuration that a run reads."""

    path: str
    link: str
    depth: int = 0
    """How many files say more than this one, where each builds on the next."""


def python_configs(project: Project, near: str, command: CommandLine, script: str | None) -> Iterator[RunFile]:
    """The Python configurations that a command line passes to its script, each before those that it builds on."""
    for word in words_of_script(command):
        value = word.rpartition("=")[2]
        path = file_named(project, near, value) if value.endswith(".py") else None
        if path is not None and path not in (script, near):
            yield RunFile(path, f"named by the command line in {near}")
            yield from files_below(project, path)


@fact
def built_configs(project: Project) -> tuple[tuple[RunFile, ...], ...]:
    """Every Python configuration that builds on others and that none builds on, before those that it builds on."""
    documents = project.python_documents((*BASES, "read_base"))
    chains = {document.path: tuple(files_below(project, document.path)) for document in documents}
    below = {file.path for chain in chains.values() for file in chain}
    tops = (path for path, chain in chains.items() if chain and path not in below)
    return tuple((RunFile(path, "the configuration"), *chains[path]) for path in tops)


def is_built_config(project: Project, path: str) -> bool:
    """Whether a Python file is a configuration that builds on others, or one that others build on."""
    return path in project.fact(_of_built_configs)


def _of_built_configs(project: Project) -> frozenset[str]:
    return frozenset(file.path for files in built_configs(project) for file in files)


def files_below(project: Project, path: str) -> Iterator[RunFile]:
    """The files that a configuration builds on, near ones first."""
    for depth, base in enumerate(project.memo(_bases_of, path), 1):
        yield RunFile(base, f"{path} builds on it", depth)


def _bases_of(project: Project, path: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    waiting = [path]
    while waiting and len(found) < MAX_BASES:
        current = waiting.pop(0)
        documents = project.python_documents_at([current]) if current.endswith(".py") else ()
        named = [base for document in documents for base in _named_bases(project, names_of(project, document))]
        for base in (*named, *_in_text(project, current)):
            if base not in found and base != path:
                found[base] = None
                waiting.append(base)
    return tuple(found)


def _in_text(project: Project, path: str) -> Iterator[str]:
    """``_BASE_: base.yaml``, ``_base_: [a.yaml, b.yaml]``."""
    config = config_at(project, path) if path.endswith(CONFIG_ENDINGS) else None
    for entry in config.text.entries if config is not None else ():
        if entry.key and entry.key[0] in BASES and isinstance(entry.value, str):
            base = posixpath.normpath(posixpath.join(posixpath.dirname(path), entry.value))
            if base in project.paths:
                yield base


def _named_bases(project: Project, module: ModuleNames) -> Iterator[str]:
    """``_base_ = ["../base.py"]`` and ``with read_base(): from .base import *``."""
    near = module.document.path
    yield from (base for base in _listed_bases(module) if base in project.paths)
    for statement in module.tree.body:
        for inner in statement.body if isinstance(statement, ast.With) else ():
            if isinstance(inner, ast.ImportFrom) and inner.module:
                path = project.python_path(absolute_module(near, inner.module, inner.level), near)
                if path is not None:
                    yield path


def _listed_bases(module: ModuleNames) -> Iterator[str]:
    for binding in module.module_scope.bindings.get(BASES[0], ()):
        for node in ast.walk(binding.value) if binding.value is not None else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield posixpath.normpath(posixpath.join(posixpath.dirname(module.document.path), node.value))


def set_over_bases(project: Project, path: str) -> frozenset[str]:
    """The variables that a file with ``with read_base():`` gives values of its own, in place of all that bases say.

    Values of ``_base_`` are merged with those below, but here the file is Python.
    """
    found = set()
    for module in modules_at(project, [path] if path.endswith(".py") else ()):
        for name, bindings in module.module_scope.bindings.items() if "read_base" in module.calls_by_name else ():
            values = [item.value for item in bindings if item.kind == "assign" and item.value is not None]
            if any(not any(name == getattr(node, "id", "") for node in ast.walk(value)) for value in values):
                found.add(name)
    return frozenset(found)


def has_unseen_bases(project: Project, path: str) -> bool:
    """Whether a configuration in Python inherits from a file that the project does not hold, at whatever depth."""
    modules = modules_at(project, (path, *(base for base in project.memo(_bases_of, path) if base.endswith(".py"))))
    return any(base not in project.paths for module in modules for base in _listed_bases(module))


def reads_python_file(project: Project, modules: Sequence[str]) -> bool:
    """Whether a program sets a trainer up by a Python file that it is passed."""
    interface = interface_of(project, modules[0]) if modules else None
    return interface is not None and any(item.is_of_python_files for item in interface.frameworks)


def composed_files(project: Project, module: ModuleNames, words: Sequence[str]) -> Iterator[RunFile]:
    """The files that Hydra composes for a program with these words on its command line."""
    for main in mains_of(project, module):
        for depth, path in enumerate(composed(project, main, words)):
            yield RunFile(path, f"composed by {module.document.path}", depth)


def files_to_choose(project: Project, module: ModuleNames, words: Sequence[str]) -> Iterator[str]:
    """The files that Hydra may begin with for a program that is told the first one elsewhere, as far as it shows."""
    for main in mains_of(project, module):
        if not main.name and not composed(project, main, words):
            files = (path for path in project.paths if path.endswith(CONFIG_ENDINGS))
            yield from (path for path in files if main.root == "." or path.startswith(f"{main.root}/"))


def modules_named(project: Project, paths: Iterable[str], *, by_any_key: bool = False) -> tuple[ModuleNames, ...]:
    """The project's modules whose classes these configurations name by a dotted path, under the keys of libraries."""
    found: dict[ModuleNames, None] = {}
    for path in dict.fromkeys(paths):
        found |= dict.fromkeys(project.memo(_named_in, (path, by_any_key)))
        if len(found) > MAX_CLASSES:
            break
    return tuple(found)


def modules_imported_by_name(project: Project, modules: frozenset[str]) -> tuple[ModuleNames, ...]:
    """The modules that a program may import by a name which it computes: those of the package that begins the name, and
    what its configurations name under keys of its own. Where neither is seen, all that no statement imports.
    """
    program = [*modules_at(project, sorted(modules))]
    names = (*IMPORTING, *OF_A_PLACE)
    calls = [(module, call) for module in program for name in names for call in module.calls_by_name.get(name, ())]
    if not calls:
        return ()
    computed = [each for each in calls if each[1].args and string_of(each[1].args[0]) is None]
    placed = [each for each in calls if last_name(each[1].func) in OF_A_PLACE and each not in computed]
    prefixes = dict.fromkeys([*(imported_below(*each) for each in computed), *("" for _ in placed)])
    near = (path for path in project.paths if path.endswith(".py") and any(is_below(path, each) for each in prefixes))
    below = reached_from(project, modules_at(project, near), MAX_CLASSES)
    files = (path for path in project.paths if path.endswith(CONFIG_ENDINGS))
    loaded = (path for path in files if not modules.isdisjoint(loaders_of(project, path)))
    named = modules_named(project, loaded, by_any_key=True)
    loose = modules_at(project, project.fact(_imported_by_nobody)) if "" in prefixes and not named else ()
    return tuple(dict.fromkeys((*below, *named, *loose)))


def _imported_by_nobody(project: Project) -> tuple[str, ...]:
    """The modules with something to say of a dtype that no statement imports, and that do nothing when started."""
    found = modules_with(project, HALF_WORDS, ("torch",), where=lambda path: not purpose_of(path).is_left_alone)
    alone = (item for item in found if not importers_of(project, item) and not is_program(project, item.path))
    return tuple(item.path for item in alone)


def _named_in(project: Project, asked: tuple[str, bool]) -> tuple[ModuleNames, ...]:
    path, by_any_key = asked
    config = config_at(project, path) if not path.endswith(".py") else None
    starts: dict[str, None] = {}
    for entry in config.text.entries if config is not None else ():
        holder, dot, name = entry.value.rpartition(".") if entry.key and isinstance(entry.value, str) else ("", "", "")
        found = project.python_path(holder) if dot and name.isidentifier() else None
        if found is not None and (entry.key[-1] in CLASS_KEYS or (by_any_key and _defines(project, found, name))):
            starts[found] = None
    modules = [*modules_at(project, starts)]
    return reached_from(project, modules, MAX_MODULES)


def _defines(project: Project, path: str, name: str) -> bool:
    """Whether a module has a class or a function of this name, so that ``runner: project.runners.Trainer`` names it."""
    modules = modules_at(project, [path])
    return any(
        item.kind in ("class", "function") for each in modules for item in each.module_scope.bindings.get(name, ())
    )


def constant_files(project: Project, path: str) -> tuple[str, ...]:
    """The YAML and JSON files that a module names."""
    found: dict[str, None] = {}
    for module in modules_at(project, [path]):
        for node in module.of_type(ast.Constant):
            named = file_named(project, path, _name_in(node)) if _name_in(node) else None
            found |= {named: None} if named is not None else {}
    return tuple(found)


def naming_options(project: Project, asked: tuple[str, str]) -> list[frozenset[str]]:
    """For each place where a module names a file the options whose default that is."""
    near, path = asked
    modules = [*modules_at(project, [near])]
    named = [(module, node) for module in modules for node in module.of_type(ast.Constant) if _name_in(node)]
    return [options_of(module, node) for module, node in named if file_named(project, near, _name_in(node)) == path]


def _name_in(node: ast.Constant) -> str:
    """The name of a configuration file that a string is; "" for others."""
    name = node.value if isinstance(node.value, str) and len(node.value) < MAX_NAME else ""
    return name if name.endswith(CONFIG_ENDINGS) else ""


def options_of(module: ModuleNames, node: ast.expr) -> frozenset[str]:
    """The names of the option whose default a string is: ``add_argument("--config", default="small.yaml")``."""
    owner = module.parents.get(node)
    call = module.parents.get(owner) if isinstance(owner, ast.keyword) and owner.arg == "default" else None
    names = [item.value for item in call.args if isinstance(item, ast.Constant)] if isinstance(call, ast.Call) else []
    return frozenset(name.replace("_", "-") for name in names if isinstance(name, str) and name.startswith("-"))


def files_named_by(_project: Project, config: ConfigFile) -> list[str]:
    """The files that a configuration file names, as values (``deepspeed: ds.json``); for `Project.memo`."""
    composed_of = ("defaults", *BASES)  # what a run composes
    plain = (entry for entry in config.text.entries if not entry.key or entry.key[0] not in composed_of)
    values = (entry.value for entry in plain if isinstance(entry.value, str))
    return list(dict.fromkeys(value for value in values if value.endswith(CONFIG_ENDINGS)))


def shown_line(command: CommandLine) -> str:
    """The line as written; filled in where a variable holds the program: ``$CMD``."""
    text = " ".join(command.written if command.script in command.written else command.words)
    return text if len(text) <= 100 else f"{text[:97]}..."
