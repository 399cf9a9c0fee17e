"""Whether a trainer may be handed a DeepSpeed file that nobody follows: by words of a shell, or by its own code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from ...formats.shell_variables import NAMED
from ...formats.text import CommandLine
from ...python.names import ModuleNames
from ...source.documents import FileKind
from ...source.project import Project
from ..reading.command_options import declared_options
from ..reading.known_readers import HANDED_FILES, is_open
from ..reading.recognition import plain_flag
from ..reading.run_members import Run
from ..reading.runs import runs_with
from ..reading.scopes import TRUE, CodeOrigin, Scope

DEEPSPEED_FILES = ("deepspeed", "deepspeed_config", "deepspeed_config_file", "ds_config")
"""Flags and arguments that name a DeepSpeed file."""
STARTING = (FileKind.SHELL, FileKind.ENV, FileKind.TEXT)
"""Files that may set a variable for a script, or start it with words."""
UNSEEN = re.compile(r"\$(?:\{[^}]*\}|\w+|[@*]|\(.*)|`.*")
"""A word that is only a variable, or what a command says."""


def may_be_handed(project: Project, run: Run) -> bool:
    """Whether nobody sees which DeepSpeed file a run gets, if any."""
    if run.command is None or is_open(run.command):
        return True
    scopes = [member.scope for member in run.members if member.scope.framework.id in HANDED_FILES]
    keys = (key for scope in scopes for key in scope.framework.keys if key.meaning(TRUE) is not None)
    switches = {plain_flag(flag) for key in keys for flag in key.flags}
    calls = (
        (scope.origin.module, scope.call)
        for scope in scopes
        if isinstance(scope.origin, CodeOrigin) and scope.call is not None
    )
    given = ((module, item) for module, call in calls for item in call.keywords if item.arg in DEEPSPEED_FILES)
    return any(_brings_flags(project, run.command, switches)) or any(
        _is_unknown(project, module, item.value) for module, item in given
    )


def _brings_flags(project: Project, command: CommandLine, switches: set[str]) -> Iterator[bool]:
    """For each word that only a shell knows, whether it may be, or bring, the flag for a file: ``--fp16 $FLAGS``."""
    for before, word in pairwise(command.words):
        if UNSEEN.fullmatch(word.strip("\"'")):
            flag = plain_flag(before)
            is_value = before.startswith("-") and "=" not in before and flag not in (*DEEPSPEED_FILES, *switches)
            yield not is_value or _holds_flags(project, word)


def _holds_flags(project: Project, word: str) -> bool:
    """Whether a text gives a variable words that are flags."""
    match = NAMED.fullmatch(word.strip("\"'"))
    said = f"{match[0].strip('${}')}=" if match is not None else ""
    texts = (item.text for kind in STARTING for item in (project.documents(kind, (said,)) if said else ()))
    return any("--" in line.partition(said)[2] for text in texts for line in text.splitlines())


def _is_unknown(project: Project, module: ModuleNames, value: ast.expr) -> bool:
    """Whether an argument may be a file: it is no literal, and no option that names none where nobody gives it."""
    if isinstance(value, ast.Constant | ast.Dict):
        return False
    if isinstance(value, ast.IfExp):
        return any(_is_unknown(project, module, item) for item in (value.body, value.orelse))
    if isinstance(value, ast.Attribute):
        found = declared_options(project, module, value.attr)
        return not found or any(_is_unknown(project, item.module, item.default) for item in found if item.default)
    bindings = module.bindings_of(value)
    return not bindings or any(not isinstance(item.value, ast.Constant | ast.Dict) for item in bindings)


def beside_unseen_arguments(project: Project, scope: Scope) -> str:
    """The trainer's call beside a DeepSpeed file that is passed what nobody sees, its precision as well.

    Trainers refuse a file that does not say what their own arguments say.
    """
    for run in runs_with(project, scope) if scope.framework.id == "deepspeed" else ():
        trainers = [member.scope for member in run.members if member.scope.framework.id in HANDED_FILES]
        silent = not any(setting.key.means for item in trainers for setting in item.settings)
        opened = (item for item in trainers if silent and item.kind == "call" and item.is_open)
        for item in opened:
            return f"{item.path}:{item.span.row} is passed arguments that are not seen and have to say the same"
    return ""
