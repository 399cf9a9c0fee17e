"""What a launch line leaves open: its program, files that are not here, arguments that code makes itself."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ...formats.text import CommandLine
from ...purpose.files import CONFIG_ENDINGS
from ...source.project import Project
from ..reading.declarations import scopes_of
from ..reading.program_files import file_named
from ..reading.recognition import plain_flag
from ..reading.runs import runs_with
from ..reading.scopes import SettingScope, TextOrigin
from .handed_deepspeed import DEEPSPEED_FILES


def of_any_program(project: Project, scope: SettingScope) -> Iterator[str]:
    """The launch lines of the runs that read a place whose program is an argument: ``accelerate launch "$@"``."""
    for run in runs_with(project, scope):
        command = run.command if not run.modules else None
        is_unseen = scope.title in scope.framework.recognize.launchers and scope.command is command
        if command is not None and (command.script.startswith("$") or (is_unseen and not command.script)):
            yield f"{run.place.path}:{run.place.span.row}"


def open_calls(project: Project, scope: SettingScope) -> Iterator[str]:
    """The calls of the same trainer in the runs of a line that take a dictionary nobody follows: ``Args(**cfg)``.

    None of what says over a section (``trainer.fp16=true``): that the call is passed it has been followed.
    """
    indexes = {item.index for item in scope.settings}
    entries = scope.origin.config.text.entries if isinstance(scope.origin, TextOrigin) else ()
    if any(entry.kind == "override" for entry in entries if entry.index in indexes):
        return
    for member in (member for run in runs_with(project, scope) for member in run.members):
        other = member.scope
        is_open = other.is_open and not other.regimes
        if other.kind == "call" and is_open and other.framework.id == scope.framework.id:
            yield f"{other.path}:{other.span.row}"


def missing_files(project: Project, scope: SettingScope, command: CommandLine) -> Iterator[str]:
    """The DeepSpeed files of a command line that the project does not hold, or that nobody here can read."""
    for word, after in pairwise((*command.words, "")):
        flag, equals, value = word.partition("=")
        value = value if equals else after
        is_named = flag.startswith("-") and plain_flag(flag) in DEEPSPEED_FILES and "." in value.rpartition("/")[2]
        is_seen = value.endswith(CONFIG_ENDINGS) and file_named(project, scope.path, value) is not None
        if is_named and not is_seen and value[:1] not in "-$" and not _is_written(project, scope, value):
            yield value


def _is_written(project: Project, scope: SettingScope, name: str) -> bool:
    """Whether the script or notebook of a command line writes a file of this name itself."""
    origins = (other.origin for other in scopes_of(project) if other.path == scope.path)
    written = {item.config.name.rpartition("/")[2] for item in origins if isinstance(item, TextOrigin)}
    return name.rpartition("/")[2] in written
