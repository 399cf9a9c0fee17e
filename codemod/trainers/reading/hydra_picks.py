"""Which files of Hydra's groups the runs of a project compose, and which of their keys another file says over them.

A run is a launch line with its words, or a program with none. A file of a group counts where a run composes it, or
where somebody may pick it: a sweep, a read-me, a list of another file, a string of the code names it.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from ...formats.text import TextEntry
from ...python.names import modules_at, modules_with
from ...source.documents import FileKind
from ...source.project import Project
from .configs import config_files
from .hydra_files import HYDRA, Composition, Package, composition, config_at, defaults_of, mains_of
from .program_files import command_lines, script_of, words_of_script
from .programs_started import modules_of

SWEEPS = ("hydra",)
"""Keys below which a configuration says what is to be tried: ``hydra.sweeper.params``."""


def is_never_picked(project: Project, path: str) -> bool:
    """Whether Hydra composes another file of the same group, and no launch line picks this one."""
    return path in project.fact(_never_picked)


def is_left_out(project: Project, path: str) -> bool:
    """Whether a file stands among those that Hydra composes from, and no launch line or default is seen to pick it."""
    every = [item for found in project.fact(_composed).values() for item in found]
    return not any(path in item.files for item in every) and any(
        main.root == "." or path.startswith(f"{main.root}/")
        for module in modules_at(project, project.fact(_composed))
        for main in mains_of(project, module)
        if main.name
    )


def may_be_composed(project: Project, path: str) -> bool:
    """Whether a run composes a file below Hydra's folder, or somebody may pick it; true where nothing is composed.

    What stands below that folder, in a group of which no run takes a file, may be there for another program.
    """
    every = [item for found in project.fact(_composed).values() for item in found]
    folders = {posixpath.dirname(each) for item in every for each in item.files}
    is_whole = all(item.is_whole for item in every)
    return not folders or not is_whole or posixpath.dirname(path) in folders or _may_be_picked(project, path)


def is_said_over(project: Project, path: str, entry: TextEntry) -> bool:
    """Whether each run that composes a file composes another one that says this key of it over it."""
    holding = [item for found in project.fact(_composed).values() for item in found if path in item.files]
    return bool(holding) and all(_says_over(project, item, path, entry) for item in holding)


def counts_in(project: Project, modules: Sequence[str], words: Sequence[str], path: str, key: str) -> bool:
    """Whether a run with these words may read a key of a file that Hydra composes for its program; true of others."""
    found = [
        (main.root, composition(project, main, words))
        for module in modules_at(project, [path for path in modules if path in project.fact(_composed)])
        for main in mains_of(project, module)
        if main.name or main.flags
    ]
    below = [item for root, item in found if root == "." or path.startswith(f"{root}/")]
    if not below or not all(item.is_whole for item in below):
        return True
    config = config_at(project, path)
    entries = [item for item in config.text.entries if ".".join(map(str, item.key)) == key] if config else []
    return any(
        path in item.files and not (entries and all(_says_over(project, item, path, entry) for entry in entries))
        for item in below
    )


def _says_over(project: Project, run: Composition, path: str, entry: TextEntry) -> bool:
    own = run.files[path]
    if own is None:
        return False
    whole = (*own, *map(str, entry.key))
    stronger = list(run.files)[: list(run.files).index(path)]
    return any(whole in project.memo(_keys_of, (other, run.files[other])) for other in stronger)


def _keys_of(project: Project, asked: tuple[str, Package]) -> frozenset[tuple[str, ...]]:
    """The keys of a file as they are in what is composed; none where it is not known where they go."""
    path, package = asked
    config = config_at(project, path)
    if config is None or package is None:
        return frozenset()
    return frozenset((*package, *map(str, entry.key)) for entry in config.text.entries if entry.is_scalar)


def _composed(project: Project) -> Mapping[str, Sequence[Composition]]:
    """By module that asks Hydra what it composes: for its launch lines, and for none."""
    found: dict[str, list[Composition]] = {}
    lines = list(_launch_lines(project))
    for module in modules_with(project, HYDRA):
        for main in mains_of(project, module):
            asked = [(), *(words for modules, words in lines if module.path in modules)] if main.name else []
            found.setdefault(module.path, []).extend(composition(project, main, words) for words in asked)
    return found


def _launch_lines(project: Project) -> Iterator[tuple[frozenset[str], tuple[str, ...]]]:
    """The words of each launch line, and the modules of what it starts."""
    for config, command in command_lines(project):
        script = script_of(project, config.document.path, command.script)
        if script is not None:
            modules = frozenset(module.document.path for module in modules_of(project, script))
            yield modules, words_of_script(command)


def _never_picked(project: Project) -> frozenset[str]:
    every = [item for found in project.fact(_composed).values() for item in found]
    composed = {path for item in every for path in item.files}
    groups = {posixpath.dirname(path) for item in every if item.is_whole for path in list(item.files)}
    roots = {main.root for module in modules_at(project, project.fact(_composed)) for main in mains_of(project, module)}
    beside = [path for path in project.paths if posixpath.dirname(path) in groups - roots and path not in composed]
    return frozenset(path for path in beside if not _may_be_picked(project, path))


def _may_be_picked(project: Project, path: str) -> bool:
    """Whether a launch line, a text, a sweep, another file or a string of the code names a file of a group."""
    name = posixpath.splitext(posixpath.basename(path))[0]
    if name in project.fact(_words_picked):
        return True
    picked = f"={name}"
    if any(True for _ in project.documents(FileKind.TEXT, (picked,))):
        return True
    modules = modules_with(project, (picked,))
    strings = (node.value for module in modules for node in module.of_type(ast.Constant))
    return any(isinstance(value, str) and picked in value for value in strings)


def _words_picked(project: Project) -> frozenset[str]:
    """The values that launch lines and sweeps give, each alternative by itself (``model=small,large``), and the names
    in the lists of files."""
    lines = command_lines(project, ("=",))
    given = [word.partition("=")[2].strip("\"'") for _, command in lines for word in command.words]
    for config in config_files(project, ("defaults", *SWEEPS), (FileKind.YAML,)):
        given += (posixpath.basename(choice) for _, choice in defaults_of(config))
        swept = (entry.value for entry in config.text.entries if entry.key[:1] == SWEEPS)
        given += (value for value in swept if isinstance(value, str))
    return frozenset(value.strip() for text in given for value in text.split(","))
