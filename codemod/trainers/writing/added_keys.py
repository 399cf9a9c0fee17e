"""Whether what reads a place knows a key that a move would add there: a parser refuses what it does not define."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ...python.names import names_of
from ...source.project import Project
from ..framework import Key
from ..reading.loaded_files import loaders_of
from ..reading.recognition import runs_program
from ..reading.runs import runs_of
from ..reading.scopes import Scope
from .steps import Step


def key_not_taken(project: Project, scope: Scope, steps: Sequence[Step]) -> str:
    """Why a step cannot add its key, for a report; empty where all that is added is known to be read."""
    for step in steps:
        if step.setting is None and scope.kind in ("file", "command") and not _takes(project, scope, step.key):
            what = "this file" if scope.kind == "file" else "this command line"
            return f"nothing that reads {what} is seen to define {step.key.name}: add it there, and here"
    return ""


def section_read_by_name(project: Project, scope: Scope, steps: Sequence[Step]) -> str:
    """Why a section cannot be renamed, for a report: code that loads the file subscripts it (``config["fp16"]``)."""
    names = {step.key.name.partition(".")[0] for step in steps if step.verb == "rename" and scope.kind == "file"}
    for document in project.python_documents_at(sorted(loaders_of(project, scope.path))) if names else ():
        module = names_of(project, document)
        for node in module.of_type(ast.Subscript):
            if isinstance(node.slice, ast.Constant) and node.slice.value in names:
                where = f"{document.path}:{document.span(node).row}"
                return f"{where} takes the section {node.slice.value} from this file: change it there, and here"
    return ""


def _takes(project: Project, scope: Scope, key: Key) -> bool:
    if scope.readers:
        return scope.takes(key)
    if scope.kind == "command" or not scope.framework.parsed_by_scripts:
        return True
    states_any = any(setting.key.means for setting in scope.settings)
    return states_any or _is_read_by_own_program(project, scope)


def _is_read_by_own_program(project: Project, scope: Scope) -> bool:
    """Whether a launch line starts the framework's own program with the file."""
    return any(
        run.command is not None
        and runs_program(scope.framework, run.command.words)
        and any(member.scope is scope for member in run.members)
        for run in runs_of(project)
    )
