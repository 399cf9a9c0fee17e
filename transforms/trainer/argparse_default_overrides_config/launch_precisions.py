"""Which precision ``accelerate launch`` is told to run a script in: its flag, its file, or the environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ....codemod.formats.text import CommandLine
from ....codemod.model import Place
from ....codemod.purpose.files import purpose_of
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import ConfigFile, Entry, config_files
from ....codemod.trainers.reading.launch_flags import runs_one_of

PRECISIONS = ("no", "fp16", "bf16", "fp8")
FLAGS = ("--mixed_precision", "--mixed-precision")
FILES = ("--config_file", "--config-file")
VARIABLE = "ACCELERATE_MIXED_PRECISION"
MARKS = ("compute_environment", "distributed_type")
"""Top-level keys of a file that ``accelerate config`` writes."""
FOLDERS = ("accelerate", "config", "conf", "cfg", "scripts", "yaml")
"""Beginnings of the names of folders whose files are for the code beside the folder."""


@dataclass(frozen=True, slots=True)
class Stated:
    """A precision that is asked of accelerate for a script, and where."""

    precision: str
    place: Place


def stated_for(project: Project, programs: set[str], flags: Iterable[str]) -> Stated | None:
    """What is stated for a run of ``programs`` (paths) that is not given any of ``flags`` itself.

    Launch lines decide where there are any; a lone accelerate file counts where there are none.
    """
    launched = False
    for config in config_files(project, ("accelerate",), (FileKind.SHELL,)):
        if purpose_of(config.document.path).is_left_alone:
            continue
        for index, command in enumerate(config.text.commands):
            if command.script and runs_one_of(command.script, programs):
                launched = True
                found = _of_command(project, config, index, command, set(flags))
                if found is not None:
                    return found
    return None if launched else _of_files(project, programs)


def _of_command(
    project: Project, config: ConfigFile, index: int, command: CommandLine, flags: set[str]
) -> Stated | None:
    at = command.words.index(command.script) if command.script in command.words else -1
    before, after = command.words[:at], command.words[at + 1 :]
    if at < 0 or any(_may_pass(word, flags) for word in after):
        return None
    entries = [entry for entry in config.text.entries if entry.call == index]
    if not any(word.rpartition("/")[2] in ("accelerate", "accelerate-launch") for word in before):
        return _of_variable(config)
    flag = next((entry for entry in entries if entry.name in FLAGS and entry.owner == "launcher"), None)
    if flag is not None:
        return _stated(config, flag, "the launch line asks for {}")
    file = next((entry for entry in entries if entry.name in FILES and entry.owner == "launcher"), None)
    return _of_named_file(project, str(file.value)) if file is not None else None


def _may_pass(word: str, flags: set[str]) -> bool:
    """Whether a word behind the script may be one of its flags: written out, shortened, or hidden in a variable."""
    name = word.partition("=")[0].replace("-", "_")
    return "$" in name or any(len(name) > 4 and flag.replace("-", "_").startswith(name) for flag in flags)


def _of_variable(config: ConfigFile) -> Stated | None:
    entry = config.last(VARIABLE)
    return _stated(config, entry, f"{VARIABLE} asks for {{}}") if entry is not None else None


def _of_named_file(project: Project, name: str) -> Stated | None:
    tail = name.strip("\"'").removeprefix("./")
    for config in _accelerate_files(project):
        path = config.document.path
        if path == tail or path.endswith(f"/{tail}") or ("$" not in tail and tail.endswith(f"/{path}")):
            return _of_file(config)
    return None


def _of_files(project: Project, programs: set[str]) -> Stated | None:
    """The precision that all accelerate files for the folder of a program agree on."""
    near = [config for config in _accelerate_files(project) if any(_serves(config, path) for path in programs)]
    found = [_of_file(config) for config in near]
    known = [item for item in found if item is not None]
    return known[0] if known and len(known) == len(found) and len({item.precision for item in known}) == 1 else None


def _serves(config: ConfigFile, program: str) -> bool:
    folders = config.document.path.split("/")[:-1]
    while folders and folders[-1].lower().startswith(FOLDERS):
        folders.pop()
    return not folders or program.startswith("/".join(folders) + "/")


def _of_file(config: ConfigFile) -> Stated | None:
    entry = config.last("mixed_precision")
    return _stated(config, entry, "the accelerate file asks for {}") if entry is not None else None


def _accelerate_files(project: Project) -> Iterator[ConfigFile]:
    for config in config_files(project, ("mixed_precision",), (FileKind.YAML, FileKind.JSON)):
        names = {entry.name for entry in config.text.entries if len(entry.key) == 1}
        is_accelerates = not names.isdisjoint(MARKS) and "mixed_precision" in names
        if is_accelerates and not purpose_of(config.document.path).is_left_alone:
            yield config


def _stated(config: ConfigFile, entry: Entry, message: str) -> Stated | None:
    value = "no" if entry.value is False else entry.value
    if value not in PRECISIONS:
        return None
    return Stated(str(value), config.place(entry, message.format(value)))
