"""Which options the launch lines of read-mes and the heads of programs show, and with which values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ...python.names import ModuleNames
from ...source.documents import FileKind
from ...source.project import Project
from .launch_flags import programs_of
from .program_files import script_of

KINDS = (FileKind.TEXT, FileKind.SHELL)
_MARKS = str.maketrans("=`'\"", "    ")


def shown_values(project: Project, module: ModuleNames, name: str) -> Iterator[str]:
    """What stands behind ``--name`` or ``name=`` wherever a program of ``module`` is started so; "" for nothing."""
    flags = {f"--{name}", f"--{name.replace('_', '-')}"}
    yield from _behind(ast.get_docstring(module.tree) or "", flags)
    programs = programs_of(project, module)
    for document in (item for kind in KINDS for item in project.documents(kind, {*flags, f"{name}="})):
        for line in document.text.replace("\\\n", " ").splitlines():
            words = line.translate(_MARKS).split()
            pairs = [word.partition("=") for word in line.split()]
            given = [value for key, sign, value in pairs if sign and key.rpartition(".")[2] == name]
            shown = [*_behind(line, flags), *given]
            if shown and any(_starts(project, document.path, word, programs) for word in words):
                yield from shown


def _starts(project: Project, path: str, word: str, programs: set[str]) -> bool:
    """Whether a word of a launch line names one of the programs, or a command that the project installs."""
    if word.endswith(".py") or "." in word:
        return script_of(project, path, word) in programs
    return "-" in word and any(f'\n{word} = "' in item.text for item in project.documents(FileKind.TOML, ("scripts]",)))


def _behind(text: str, flags: set[str]) -> Iterator[str]:
    for word, following in pairwise([*text.translate(_MARKS).split(), ""]):
        if word in flags:
            yield "" if following.startswith("-") else following
