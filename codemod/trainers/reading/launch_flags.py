"""What launch scripts pass to a program: its flags, and the variables behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...formats.text import Entry
from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules
from ...python.names import ModuleNames
from ...source.documents import FileKind
from ...source.project import Project
from .configs import ConfigFile, config_files
from .source import Source, entry_source

_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def flags_given(project: Project, module: ModuleNames, flags: Sequence[str]) -> Iterator[Source]:
    """Every use of ``flags`` on a command line that runs ``module``, or a file that has to do with it."""
    programs = {item.document.path for item in connected_modules(project, module)}
    words = tuple(flag.lstrip("-") for flag in flags)
    for config in config_files(project, words, (FileKind.SHELL, FileKind.ENV)):
        if purpose_of(config.document.path).is_left_alone:
            continue
        for entry in config.text.entries:
            if entry.kind == "flag" and entry.name in flags and runs_one_of(entry.command, programs):
                yield from _resolved(config, entry)


def runs_one_of(command: str, programs: set[str]) -> bool:
    """Whether ``command`` (a script's path, a module's name) is one of the project's ``programs``."""
    name = command.strip("\"'").removeprefix("./")
    if not name:
        return False
    path = name if name.endswith(".py") else f"{name.replace('.', '/')}.py"
    tail = path.rpartition("/")[2]
    return any(item == path or item.endswith(f"/{path}") or path.endswith(f"/{item}") for item in programs) or (
        "$" in path and any(item.rpartition("/")[2] == tail for item in programs)
    )


def _resolved(config: ConfigFile, entry: Entry) -> Iterator[Source]:
    """The flag's own value, or the assignments of the variable that stands there."""
    variable = _VARIABLE.fullmatch(entry.value) if isinstance(entry.value, str) else None
    if variable is None:
        yield entry_source(config, entry)
        return
    for other in config.text.entries:
        if other.kind == "assignment" and other.name == variable.group(1):
            yield entry_source(config, other)
