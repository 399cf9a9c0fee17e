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
from ..reading.precision import Compute, precision_of
from ..reading.recognition import plain_flag
from ..reading.run_members import Run
from ..reading.runs import runs_of, runs_with
from ..reading.scopes import TRUE, CodeOrigin, SettingScope

DEEPSPEED_FILES = ("deepspeed", "deepspeed_config", "deepspeed_config_file", "ds_config")
"""Flags and arguments that name a DeepSpeed file."""
BY_ACCELERATE = "deepspeed_config_file"
"""The flag of accelerate that hands a file to whatever trainer it starts."""
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


def beside_unseen_arguments(project: Project, scope: SettingScope, target: str) -> str:
    """The trainer's call beside a DeepSpeed file that is passed what nobody sees, its precision as well, or that
    asks for no 16-bit type.

    Trainers refuse a file that does not say what their own arguments say.
    """
    for run in runs_with(project, scope) if scope.framework.id == "deepspeed" else ():
        trainers = [member.scope for member in run.members if member.scope.framework.id in HANDED_FILES]
        silent = not any(setting.key.means for item in trainers for setting in item.settings if item.kind == "call")
        for item in (item for item in trainers if silent and item.kind == "call"):
            if item.is_open and not any(setting.key.means for other in trainers for setting in other.settings):
                return f"{item.path}:{item.span.row} is passed arguments that are not seen and have to say the same"
            if target != "fp32" and is_plain_call(item) and precision_of(project, item).compute is Compute.FP32:
                return f"{item.path}:{item.span.row} asks for no 16-bit type, and refuses a file that does: let it ask"
    return ""


def is_plain_call(scope: SettingScope) -> bool:
    """Whether it is a call of transformers' own arguments, which asks for no 16-bit evaluation either."""
    module = scope.origin.module if isinstance(scope.origin, CodeOrigin) else None
    name = module.qualified(scope.call.func) if module is not None and scope.call is not None else None
    of_evaluation = ("fp16_full_eval", "bf16_full_eval")
    return (name or "").startswith("transformers.") and not any(scope.last(key) is not None for key in of_evaluation)


def handed_by_accelerate(project: Project) -> Iterator[tuple[SettingScope, str]]:
    """The calls of transformers' arguments whose trainer accelerate hands a file (transformers 4.30 and later), each
    with its name: the launcher's own precision is not what the trainer compares it with."""
    for run in runs_of(project):
        calls = [member.scope for member in run.members if is_plain_call(member.scope)]
        words = (*run.command.words, "") if run.command is not None and calls else ()
        written = next((after for word, after in pairwise(words) if plain_flag(word) == BY_ACCELERATE), "")
        own = [
            scope
            for scope in calls
            if scope.call is not None and any(each.arg == "deepspeed" for each in scope.call.keywords)
        ]
        yield from ((scope, written) for scope in calls if written and scope not in own)
