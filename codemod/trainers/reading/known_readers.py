"""Whether something is known to read a file or to define a flag: marks only say whose a text looks like.

A reader is a launch line that names the file, code that loads it, the framework's own launcher where it reads a file of
this name unasked, the framework's own program, or a parser of the project that defines the option.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator

from ...formats.text import CommandLine
from ...purpose.training import training_modules
from ...python.names import ModuleNames, attribute_chain, modules_at
from ...source.documents import FileKind
from ...source.project import Project
from .command_options import declared_options
from .declarations import scopes_of
from .hydra_picks import may_be_composed
from .loaded_files import is_only_composed, loaders_of
from .named_classes import CLASS_KEYS
from .parsed_files import interfaces_reading
from .program_files import VARIABLE, words_of_script
from .recognition import is_file_named, runs_program
from .run_members import Run
from .runs import LAUNCHERS_OWN, UNNAMED, all_runs_of, runs_of, runs_with
from .scopes import SettingScope, TextOrigin
from .shown_lines import instructed_files

PARSERS = ("HfArgumentParser", "TrlParser", "LightningCLI", "add_config_arguments", "add_argparse_args")
"""Calls that define a framework's own options in the project's parser (transformers, trl, Lightning, DeepSpeed)."""
PARSES = ("HfArgumentParser", "TrlParser")
"""Parsers of classes that say themselves which files they take, and with which keys."""
HANDED_FILES = ("hf_trainer", "trl", "accelerate")
"""Frameworks to which a launcher hands a DeepSpeed file that their own code does not name."""
TAKING = ("accelerate", "deepspeed", "transformers", "trl")
"""Packages whose trainers take the files of launchers though their calls say no precision."""
INSTRUCTIONS = (FileKind.SHELL, FileKind.ENV, FileKind.TEXT, FileKind.YAML)
"""Files that hold launch lines: scripts, read-mes, makefiles, workflows."""


def reader_is_known(project: Project, scope: SettingScope) -> bool:
    """Whether a run certainly reads ``scope``; code always is read where it runs."""
    if scope.kind in ("call", "mapping"):
        return True
    if any(item.frameworks for item in scope.readers) and (
        scope.kind == "command" or interfaces_reading(project, scope.path)
    ):
        return True
    if any(is_file_named(scope.path, pattern) for pattern in scope.framework.recognize.unasked):
        return True
    if scope.kind == "command":
        return _is_parsed(project, scope)
    named = any(_names(run, scope) for run in runs_of(project))
    told = (path for _, path in instructed_files(project))
    return named or _is_loaded(project, scope.path) or scope.path in told


def _is_loaded(project: Project, path: str) -> bool:
    """Whether code loads a file, or a launch line passes it on; of what Hydra could compose, what somebody may pick."""
    is_seen = bool(loaders_of(project, path))
    return is_seen and (not is_only_composed(project, path) or may_be_composed(project, path))


def is_left_to_others(project: Project, scope: SettingScope) -> bool:
    """Whether a program of the project is given a file, and none of its code is seen to use the trainer it looks like.

    What reads it there, a package of somebody or an engine of theirs, may take other words.
    """
    if scope.kind != "file" or not scope.framework.recognize.calls or scope.framework.id in LAUNCHERS_OWN:
        return False
    entries = scope.origin.config.text.entries if isinstance(scope.origin, TextOrigin) else ()
    is_parsed = any(item.frameworks for item in scope.readers) or any(item.name in CLASS_KEYS for item in entries)
    runs = [run for run in runs_with(project, scope) if run.modules]
    return not is_parsed and any(not _uses_trainer(project, run) for run in runs)


def _uses_trainer(project: Project, run: Run) -> bool:
    modules = modules_at(project, run.modules)
    made = any(name in module.calls_by_name for module in modules for name in (*PARSERS, "instantiate"))
    return made or any(_extends_parser(item) for item in modules) or any(item.scope.call for item in run.members)


def looks_alike_only(project: Project, scope: SettingScope) -> bool:
    """Whether a file has marks that many programs share, nothing is seen to read it, and the project has its own.

    One beside another of its kind that something reads is for the same program.
    """
    if scope.kind != "file" or reader_is_known(project, scope):
        return False
    folder = posixpath.dirname(scope.path)
    others = (item for item in scopes_of(project) if item.kind == "file" and item.framework is scope.framework)
    beside = (item for item in others if item is not scope and posixpath.dirname(item.path) == folder)
    if any(reader_is_known(project, item) for item in beside):
        return False
    if scope.framework.id in LAUNCHERS_OWN:
        trained = {module.document.path for module in training_modules(project)}
        runs = [run for run in all_runs_of(project) if run.modules]
        runs = [run for run in runs if run.members or not trained.isdisjoint(run.modules)]
        return bool(runs) and not any(_may_be_given_files(project, run) for run in runs)
    return scope.framework.recognize.generic and any(True for _ in project.python_paths(PARSES))


def _may_be_given_files(project: Project, run: Run) -> bool:
    """Whether nobody sees with which files a launcher starts a trainer that takes them."""
    if run.command is not None and not is_open(run.command):
        return False
    if run.members:
        return any(member.scope.framework.id in HANDED_FILES for member in run.members)
    return any(not module.imported_packages.isdisjoint(TAKING) for module in modules_at(project, run.modules))


def is_open(command: CommandLine) -> bool:
    """Whether a variable gives a launcher words that are not known: ``accelerate launch "${ARGS[@]}" train.py``."""
    before = command.words[: len(command.words) - len(words_of_script(command))]
    return any(VARIABLE.fullmatch(word) for word in before[1:])


def _names(run: Run, scope: SettingScope) -> bool:
    """Whether a run that somebody starts brings the scope along."""
    started = run.command is not None or bool(run.modules)
    return started and any(member.scope is scope and member.link != UNNAMED for member in run.members)


def _is_parsed(project: Project, scope: SettingScope) -> bool:
    """Whether the program behind a command line defines the flags: a launcher, the framework's program, or a parser."""
    if scope.title in scope.framework.recognize.launchers:
        return True
    if scope.command is not None and runs_program(scope.framework, scope.command.words):
        return True
    modules = list(code_reading(project, scope))
    if any(name in module.calls_by_name for module in modules for name in PARSERS) or _is_configured(modules):
        return True
    if any(_extends_parser(module) for module in modules):
        return True
    names = {setting.name.lstrip("-").replace("-", "_") for setting in scope.settings}
    return bool(modules) and all(declared_options(project, modules[0], name) for name in names)


def _extends_parser(module: ModuleNames) -> bool:
    """``class TrainCLI(LightningCLI)``, which somebody makes."""
    classes = [node for node in module.scopes if isinstance(node, ast.ClassDef)]
    return any((attribute_chain(base) or [""])[-1] in PARSERS for node in classes for base in node.bases)


def code_reading(project: Project, scope: SettingScope) -> Iterator[ModuleNames]:
    """The code of the runs that read a place, or that it is part of."""
    yield from modules_at(project, dict.fromkeys(path for run in runs_with(project, scope) for path in run.modules))


def _is_configured(modules: list[ModuleNames]) -> bool:
    """Whether Hydra reads the command line, or mmengine with its action: each key of a file is an option there."""
    if any("DictAction" in module.name_loads for module in modules):
        return True
    bindings = (item for module in modules for found in module.module_scope.bindings.values() for item in found)
    return any((item.qualified or "").partition(".")[0] == "hydra" for item in bindings)
