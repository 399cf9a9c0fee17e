"""Which modules load a configuration file: the code names it, Hydra is pointed to it, or a launch line passes it on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ...purpose.files import CONFIG_ENDINGS
from ...purpose.imports import imported_names, reached_from
from ...purpose.training import only_infers, training_modules
from ...python.names import ModuleNames, modules_at, modules_with
from ...releases.pins import is_required
from ...source.project import Project
from ..framework import Framework
from .configs import config_files
from .hydra_files import HYDRA, NAME_FLAGS, chosen_groups, composed, mains_of
from .program_files import command_lines, file_in_code, files_named, script_of, words_of_script
from .programs_started import modules_of
from .shown_lines import instructed_files

DYNAMIC = frozenset(("hydra", "jsonargparse", "importlib", "runpy", "subprocess"))
"""Libraries with which a program runs what it does not import by a statement."""
MAX_MODULES = 200
ENDINGS = (*CONFIG_ENDINGS, ".py")


def loaders_of(project: Project, path: str) -> frozenset[str]:
    """The modules that are seen to load the file ``path``, or that run only in programs which are passed its name."""
    return project.fact(_loaders).get(path, frozenset())


def serves_inference(project: Project, path: str) -> bool:
    """Whether a file is seen to be loaded, and none of what loads it trains."""
    loaders = loaders_of(project, path)
    return bool(loaders) and all(only_infers(project, loader) for loader in loaders)


def is_of_own_program(project: Project, path: str, framework: Framework) -> bool:
    """Whether programs are seen to load a file that use no trainer at all, so that they read its keys for themselves.

    Where nobody is seen to load it, whether the project trains, and nothing in it names the trainer. Only for trainers
    whose marks many programs share.
    """
    if not framework.recognize.generic:
        return False
    if not loaders_of(project, path):
        return bool(training_modules(project)) and not project.memo(_is_named_anywhere, framework.packages)
    return is_loaded_without_trainer(project, path)


def is_loaded_without_trainer(project: Project, path: str) -> bool:
    """Whether programs are seen to load a file, and none of them imports anything that may hand it to a trainer."""
    modules = [*modules_at(project, sorted(loaders_of(project, path)))]
    behind = reached_from(project, modules, MAX_MODULES)
    imported = {name.partition(".")[0] for module in behind for name in imported_names(module)}
    packages = {_root(name) for item in project.frameworks for name in item.packages} - {"torch"}
    uses = any(root.lower().startswith(name) for root in imported for name in packages)
    return bool(modules) and not uses and imported.isdisjoint(DYNAMIC)


def _is_named_anywhere(project: Project, packages: tuple[str, ...]) -> bool:
    """Whether code imports one of these packages or names it in a string, or a manifest or configuration names it."""
    roots = tuple(_root(name) for name in packages)
    if any(is_required(project, name) for name in packages):
        return True
    if any(True for _ in config_files(project, (*roots, *packages))):
        return True
    return any(
        name.lower().startswith(roots)
        for module in modules_with(project, roots)
        for name in (*imported_names(module), *map(str, (node.value for node in module.of_type(ast.Constant))))
    )


def _root(package: str) -> str:
    return package.lower().replace("-", "_")


def is_only_composed(project: Project, path: str) -> bool:
    """Whether nothing but Hydra is seen to load a file: no code and no launch line names it."""
    return path not in project.fact(_named) and path not in project.fact(_all_passed)


def is_passed_only(project: Project, path: str) -> bool:
    """Whether launch lines name a file, and no code does: a run that is not passed it does not read it."""
    return path in project.fact(_all_passed) and path not in project.fact(_in_code)


def is_named_in(project: Project, path: str, modules: frozenset[str]) -> bool:
    """Whether code of these modules names a file, or Hydra composes it for them."""
    return not modules.isdisjoint(project.fact(_in_code).get(path, ()))


def python_files_passed(project: Project, module: str) -> list[str]:
    """The Python files that are passed to a program which ``module`` (a path) is part of."""
    passed = project.fact(_all_passed).items()
    return sorted(path for path, modules in passed if path.endswith(".py") and module in modules)


def _loaders(project: Project) -> Mapping[str, frozenset[str]]:
    found = dict(project.fact(_in_code))
    passed: dict[str, set[str]] = {}
    owners: dict[str, set[str]] = {}
    for path, script in _passed(project):
        passed.setdefault(path, set()).add(script)
        for module in project.memo(_program, script):
            owners.setdefault(module, set()).add(script)
    for path, scripts in passed.items():
        own = {module for script in scripts for module in project.memo(_program, script) if owners[module] <= scripts}
        found[path] = found.get(path, frozenset()) | own | scripts
    return found


def _in_code(project: Project) -> Mapping[str, frozenset[str]]:
    """The files that code names, or Hydra composes for it."""
    found = dict(project.fact(_named))
    for module in modules_with(project, HYDRA):
        for path in _composed_by(project, module):
            found[path] = found.get(path, frozenset()) | {module.path}
    return found


def _named(project: Project) -> Mapping[str, frozenset[str]]:
    """The files that code names."""
    found: dict[str, set[str]] = {}
    for module in project.python_paths(CONFIG_ENDINGS):
        for path in project.memo(_named_in, module):
            found.setdefault(path, set()).add(module)
    return {path: frozenset(modules) for path, modules in found.items()}


def _all_passed(project: Project) -> Mapping[str, frozenset[str]]:
    """The files that launch lines pass to scripts: all that is known of files without looking at code."""
    found: dict[str, frozenset[str]] = {}
    for path, script in _passed(project):
        found[path] = found.get(path, frozenset()) | project.memo(_program, script)
    return found


def _named_in(project: Project, path: str) -> tuple[str, ...]:
    found = (
        file_in_code(project, module, node)
        for module in modules_at(project, (path,))
        for node in (*module.of_type(ast.Constant), *module.of_type(ast.JoinedStr))
    )
    return tuple(dict.fromkeys(each for each in found if each is not None))


def _composed_by(project: Project, module: ModuleNames) -> Iterator[str]:
    """The files that ``@hydra.main(config_path="conf", config_name="config")`` composes, and those of all groups.

    What lies beside ``config.yaml`` itself is no group: it counts where ``config`` or a command line names it.
    """
    for main in mains_of(project, module):
        named = {*composed(project, main), *project.fact(_chosen)} if main.name else set()
        for path in project.paths:
            folder, _, name = path.rpartition("/")
            is_below = path.endswith(CONFIG_ENDINGS) and (main.root == "." or path.startswith(f"{main.root}/"))
            if is_below and (not named or (folder or ".") != main.root or not named.isdisjoint((path, name))):
                yield path


def _chosen(project: Project) -> frozenset[str]:
    """The names of the files that command lines choose instead of the one that the code names."""
    groups = (chosen_groups(command.words) for _, command in command_lines(project, NAME_FLAGS))
    return frozenset(f"{name}.yaml" for chosen in groups if (name := chosen.get("")))


def _passed(project: Project) -> Iterator[tuple[str, str]]:
    """The files that launch lines pass to a script, and the script."""
    for config, command in command_lines(project):
        script = script_of(project, config.document.path, command.script)
        words = [word.rpartition("=")[2] for word in words_of_script(command) if word.endswith(ENDINGS)]
        named = (path for word in words for path in files_named(project, config.document.path, word))
        yield from ((path, script) for path in named if script is not None and path != script)
    for script, path in instructed_files(project):
        if script:
            yield path, script


def _program(project: Project, script: str) -> frozenset[str]:
    return frozenset(module.document.path for module in modules_of(project, script))
