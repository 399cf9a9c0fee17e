"""Whether what reads a place knows a key that a move would add there: a parser refuses what it does not define."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from ...python.names import names_of
from ...source.documents import Document
from ...source.project import Project
from ..framework import FrameworkKey
from ..parsers.structured_fields import numbers_asked
from ..reading.known_readers import reader_is_known
from ..reading.loaded_files import loaders_of
from ..reading.recognition import runs_program
from ..reading.runs import runs_with
from ..reading.scopes import SettingScope
from .steps import ChangeStep

WRITING = ("set", "put", "add")
"""The steps that write a value."""


def key_not_taken(project: Project, scope: SettingScope, steps: Sequence[ChangeStep]) -> str:
    """Why a step cannot add its key, for a report; empty where all that is added is known to be read."""
    for step in steps:
        if step.setting is None and scope.kind in ("file", "command") and not _takes(project, scope, step.key):
            what = "this file" if scope.kind == "file" else "this command line"
            return f"nothing that reads {what} is seen to define {step.key.name}: add it there, and here"
    return ""


def value_not_taken(project: Project, scope: SettingScope, steps: Sequence[ChangeStep]) -> str:
    """Why a step cannot give its key the value, for a report: the program lists the words that its option takes, or a
    class says that it takes numbers."""
    for step in steps:
        if step.verb not in WRITING or (step.setting is not None and scope.is_of_launcher(step.setting)):
            continue
        typed = numbers_asked(project, step.key.name) if scope.kind in ("file", "command") else ""
        if typed and not step.value.isdigit():
            return f"{typed} takes no {step.value}: let it take words first"
        flags = {flag.lstrip("-").replace("-", "_") for flag in (step.key.name, *step.key.flags)}
        for name, words in (item for reader in scope.readers for item in reader.choices):
            if name in flags and words and step.value not in words:
                return f"{name} takes only {', '.join(sorted(words))} there: add {step.value} to its choices first"
    return ""


def read_by_name(project: Project, scope: SettingScope, steps: Sequence[ChangeStep]) -> str:
    """Why a key cannot give way to another one, for a report: code takes it by its name (``config["fp16"]``).

    That is code which loads the file; of a file that nothing is known to read, any code that knows the old key alone.
    """
    if scope.kind != "file":
        return ""
    sections = {step.key.name.partition(".")[0] for step in steps if step.verb == "rename"}
    loaders = project.python_documents_at(sorted(loaders_of(project, scope.path))) if sections else ()
    for where, name, _ in _keys_taken(project, loaders):
        if name in sections:
            return f"{where} takes the section {name} from this file: change it there, and here"
    added = {step.key.name for step in steps if step.setting is None and step.key.means}
    if added and not sections and not reader_is_known(project, scope):
        stated = {str(setting.name).rpartition(".")[2] for setting in scope.settings if setting.key.means}
        known = list(_keys_taken(project, project.python_documents(sorted(stated))))
        taken = {name: where for where, name, _ in known}
        for name in sorted(stated & taken.keys() if added.isdisjoint(taken) else ()):
            return f"{taken[name]} reads {name} and nothing reads {min(added)}: add it there, and here"
        for where in (where for where, name, raises in known if raises and name in stated):
            return f"{where} raises KeyError for a file without {min(stated)}: read {min(added)} there first"
    return ""


def _keys_taken(project: Project, documents: Iterable[Document]) -> Iterator[tuple[str, str, bool]]:
    """Where code takes which key of a mapping, and whether it has to be there: ``config["fp16"]``, not ``.get``."""
    for document in documents:
        module = names_of(project, document)
        for node in (*module.of_type(ast.Subscript), *module.calls_by_name.get("get", ())):
            key = node.slice if isinstance(node, ast.Subscript) else next(iter(node.args), None)
            if isinstance(key, ast.Constant):
                where = f"{document.path}:{document.span(node).row}"
                yield where, str(key.value), isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)


def _takes(project: Project, scope: SettingScope, key: FrameworkKey) -> bool:
    if scope.readers:
        return scope.takes(key)
    if scope.kind == "command" or not scope.framework.parsed_by_scripts:
        return True
    states_any = any(setting.key.means for setting in scope.settings)
    return states_any or _is_read_by_own_program(project, scope)


def _is_read_by_own_program(project: Project, scope: SettingScope) -> bool:
    """Whether a launch line starts the framework's own program with the file."""
    return any(
        run.command is not None and runs_program(scope.framework, run.command.words)
        for run in runs_with(project, scope)
    )
