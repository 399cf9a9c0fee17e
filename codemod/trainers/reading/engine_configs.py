"""The DeepSpeed configurations that ``deepspeed.initialize`` reads by itself: nothing fills them in or changes them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from ...python.arguments import argument, hides_arguments
from ...python.bindings import only_value
from ...python.names import ModuleNames
from ...source.project import Project
from .declarations import scopes_of
from .links import sources
from .program_files import file_named
from .recognition import plain_flag
from .runs import runs_with
from .scopes import CodeOrigin, SettingScope
from .source import GIVEN

DEEPSPEED = "deepspeed"
FLAGS = ("deepspeed_config", "deepscale_config")
"""What ``deepspeed.add_config_arguments`` adds, and ``initialize(args=...)`` reads."""


def configs_read_by(project: Project, module: ModuleNames, made: ast.Call) -> Iterator[SettingScope]:
    """The files and dictionaries that some run gives one call of ``deepspeed.initialize``."""
    given = argument(made, "config", "config_params")
    scopes = [scope for scope in scopes_of(project) if scope.framework.id == DEEPSPEED]
    if module.qualified(made.func) != "deepspeed.initialize" or hides_arguments(made):
        return
    if given is None and argument(made, "args", position=0) is not None:
        yield from (scope for scope in scopes if scope.kind == "file" and _is_on_line(project, scope, module))
    elif given is not None:
        table = _table(module, given)
        paths = set(_files(project, module, given)) if table is None else set()
        yield from (scope for scope in scopes if scope.kind == "file" and scope.path in paths)
        yield from (scope for scope in scopes if table is not None and _is_table(scope, table))


def _is_on_line(project: Project, scope: SettingScope, module: ModuleNames) -> bool:
    """Whether a launch line of the program names the file, and no code of it sets the option itself."""
    if any(module.attribute_stores.get(flag) for flag in FLAGS):
        return False
    for run in runs_with(project, scope):
        words = (*run.command.words, "") if run.command is not None and module.path in run.modules else ()
        pairs = ((word, after) if "=" not in word else word.split("=", 1) for word, after in pairwise(words))
        named = (value for flag, value in pairs if plain_flag(flag) in FLAGS)
        if any(file_named(project, run.place.path, value) == scope.path for value in named):
            return True
    return False


def _files(project: Project, module: ModuleNames, given: ast.expr) -> Iterator[str]:
    found = [item for item in sources(project, module, given) if not item.is_guessed]
    for item in [item for item in found if item.kind in GIVEN] or found:
        path = file_named(project, item.path, item.value) if isinstance(item.value, str) else None
        if path is not None:
            yield path


def _table(module: ModuleNames, given: ast.expr) -> ast.Dict | None:
    """The dictionary that is passed, if nothing of the module stores into it or passes it elsewhere."""
    if isinstance(given, ast.Dict):
        return given
    value = only_value(module, given) if isinstance(given, ast.Name) else None
    alone = isinstance(given, ast.Name) and len(module.name_loads.get(given.id, ())) == 1
    return value if isinstance(value, ast.Dict) and alone else None


def _is_table(scope: SettingScope, table: ast.Dict) -> bool:
    return isinstance(scope.origin, CodeOrigin) and scope.origin.node is table
