"""Which precision ``accelerate launch`` is told to run a file in: its flag, its file, or the environment."""

from __future__ import annotations

from collections.abc import Iterable

from ....codemod.purpose.files import purpose_of
from ....codemod.source.project import Project
from ....codemod.trainers.reading.run_members import Run
from ....codemod.trainers.reading.runs import runs_of
from ....codemod.trainers.reading.scopes import FALSE, Scope, Setting

LAUNCHERS = ("accelerate", "accelerate-launch")


def stated_for(project: Project, path: str, flags: Iterable[str]) -> Setting | None:
    """What a launch line asks of accelerate for a run of ``path`` that is not given any of ``flags`` itself."""
    launches = [run for run in runs_of(project) if path in run.modules and run.command is not None]
    launches = [run for run in launches if not purpose_of(run.place.path).is_left_alone]
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


def _stated(scope: Scope) -> Setting | None:
    setting = scope.last("mixed_precision")
    return setting if setting is not None and setting.key.accepts(value_of(setting)) else None


def value_of(setting: Setting) -> str:
    """``no`` without quotes is YAML's false."""
    return "no" if setting.value == FALSE else setting.value or "?"
