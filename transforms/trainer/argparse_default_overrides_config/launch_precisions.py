"""Which precision ``accelerate launch`` is told to run a file in: its flag, its file, or the environment."""

from __future__ import annotations

from collections.abc import Iterable

from ....codemod.purpose.files import purpose_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.declarations import scopes_of
from ....codemod.trainers.reading.run_members import Run
from ....codemod.trainers.reading.runs import runs_of
from ....codemod.trainers.reading.scopes import FALSE, Scope, Setting

LAUNCHERS = ("accelerate", "accelerate-launch")
FOLDERS = ("accelerate", "config", "conf", "cfg", "scripts", "yaml")
"""Beginnings of the names of folders whose files are for the code beside the folder."""


def stated_for(project: Project, path: str, flags: Iterable[str]) -> Setting | None:
    """What accelerate is told for a run of ``path`` that is not given any of ``flags`` itself.

    Launch lines decide where there are any; a lone accelerate file counts where there are none.
    """
    launches = [run for run in runs_of(project) if path in run.modules and run.command is not None]
    launches = [run for run in launches if not purpose_of(run.place.path).is_left_alone]
    if not launches:
        return _of_files(project, path)
    return next((found for run in launches if (found := _of_launch(run, set(flags))) is not None), None)


def _of_launch(run: Run, flags: set[str]) -> Setting | None:
    words = run.command.words if run.command is not None else ()
    at = words.index(run.command.script) if run.command is not None and run.command.script in words else -1
    if at < 0 or any(_may_pass(word, flags) for word in words[at + 1 :]):
        return None
    by_accelerate = any(word.rpartition("/")[2] in LAUNCHERS for word in words[:at])
    ranks = (3, 1) if by_accelerate else (2,)
    told = [item.scope for item in run.members if item.rank in ranks and item.scope.framework.id == "accelerate"]
    return _stated(told[0]) if told else None


def _may_pass(word: str, flags: set[str]) -> bool:
    """Whether a word behind the script may be one of its flags: written out, shortened, or hidden in a variable."""
    name = word.partition("=")[0].replace("-", "_")
    return "$" in name or any(len(name) > 4 and flag.replace("-", "_").startswith(name) for flag in flags)


def _of_files(project: Project, path: str) -> Setting | None:
    """The precision that all accelerate files for the folder of ``path`` agree on."""
    files = [item for item in scopes_of(project) if item.kind == "file" and item.framework.id == "accelerate"]
    near = [item for item in files if _serves(item.path, path) and not purpose_of(item.path).is_left_alone]
    found = [stated for item in near if (stated := _stated(item)) is not None]
    return found[0] if found and len(found) == len(near) and len({value_of(item) for item in found}) == 1 else None


def _serves(file: str, program: str) -> bool:
    folders = file.split("/")[:-1]
    while folders and folders[-1].lower().startswith(FOLDERS):
        folders.pop()
    return not folders or program.startswith("/".join(folders) + "/")


def _stated(scope: Scope) -> Setting | None:
    setting = scope.last("mixed_precision")
    return setting if setting is not None and setting.key.accepts(value_of(setting)) else None


def value_of(setting: Setting) -> str:
    """``no`` without quotes is YAML's false."""
    return "no" if setting.value == FALSE else setting.value or "?"
