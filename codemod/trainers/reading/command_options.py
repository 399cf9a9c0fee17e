"""Where the option that code reads is declared, and what command lines give it.

Looked for by name in the module that reads the option, then in the modules it has to do with, and last in all that it
imports; the first of these places that declares it counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...purpose.files import is_test, purpose_of
from ...purpose.imports import connected_modules, reached_from
from ...python.names import FunctionNode, ModuleNames, modules_at, modules_with
from ...python.options import Option, options_in
from ...source.documents import Document, FileKind
from ...source.project import Project
from ..parsers.programs import MAX_MODULES, runs_only_as_script
from .configs import config_files
from .launch_flags import flags_given, lines_without, runs_one_of
from .loaded_files import python_files_passed
from .settings_modules import picked_settings
from .source import Source, entry_source, literal_source

MAX_FILES = 60
"""Files that a program imports, near ones first, in which options are looked for."""


def declared_options(
    project: Project, module: ModuleNames, name: str, function: FunctionNode | None = None
) -> Sequence[Option]:
    """The declarations of ``name``, seen from ``module``; with ``function`` only click options of that command."""
    if function is not None:
        listed = options_in(project, module).get(name, ())
        return [item for item in listed if item.node in function.decorator_list or item.function is function]
    for other in connected_modules(project, module):
        if other is module or not purpose_of(other.document.path).is_left_alone:
            listed = options_in(project, other).get(name, ())
            found = [item for item in listed if not _is_another_programs(project, item, module)]
            if found:
                return found
    return (
        _in_passed_files(project, module, name)
        or _in_imported_files(project, module, name)
        or picked_settings(project, module, name)
    )


def _in_imported_files(project: Project, module: ModuleNames, name: str) -> Sequence[Option]:
    """The command-line options of files that are imported through others: what several programs have in common."""
    for other in project.memo(_imported, module):
        found = [item for item in options_in(project, other).get(name, ()) if item.kind == "option"]
        if found:
            return found
    return ()


def _imported(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    return reached_from(project, [module], MAX_FILES)


def _is_another_programs(project: Project, option: Option, module: ModuleNames) -> bool:
    """Whether only a program that does not import ``module`` makes the parser: of a module that is a script as well."""
    return (
        option.kind == "option"
        and option.module is not module
        and runs_only_as_script(project, option.module, option.node)
        and module not in reached_from(project, [option.module], MAX_MODULES)
    )


def _in_passed_files(project: Project, module: ModuleNames, name: str) -> Sequence[Option]:
    """The declarations in Python files that launch lines pass to the program: ``--config=configs/base.py``."""
    found: list[Option] = []
    for other in modules_at(project, python_files_passed(project, module.document.path)):
        found += (item for item in options_in(project, other).get(name, ()) if not item.flags)
    return found


def values_given(project: Project, option: Option) -> Iterator[Source]:
    """What launch scripts give an option, and what a switch is that they leave out; not the written default."""
    given = list(flags_given(project, option)) if option.flags else []
    if option.is_switched:
        given += lines_without(project, option) if option.flags else ()
        if not given:
            module, absent = option.module, option.value_when_absent
            yield Source("option", module.path, module.span(option.node), option.name, absent, "", is_switch=True)
    yield from given


def as_overridden(project: Project, module: ModuleNames, name: str, own: Iterable[Source]) -> list[Source]:
    """The sources of a variable, with what launches give it: ``--dtype=float16``, or a Python file that is executed.

    ``exec(open(path).read())`` of a program makes its variables options, and so does a function that is passed
    ``globals()``; what stands in the program are the defaults.
    """
    found = list(own)
    given = list(project.memo(_executed, (module, name))) if module.document.fact(_is_overridden) else []
    if not given:
        return found
    return [replace(item, kind="option") if item.kind == "constant" else item for item in found] + given


def _is_overridden(document: Document) -> bool:
    """Whether a file executes text, or gives away its variables as a dictionary that others may write."""
    calls = [node for node in ast.walk(document.tree) if isinstance(node, ast.Call)]
    named = [node.func.id for node in calls if isinstance(node.func, ast.Name)]
    if "exec" in named or "globals" not in named:
        return "exec" in named
    given = [item for node in calls for item in (*node.args, *(keyword.value for keyword in node.keywords))]
    subscripts = [node for node in ast.walk(document.tree) if isinstance(node, ast.Subscript)]
    stored = [node.value for node in subscripts if isinstance(node.ctx, ast.Store)]
    updated = [node.func.value for node in calls if isinstance(node.func, ast.Attribute) and node.func.attr == "update"]
    return any(isinstance(item, ast.Call) and ast.unparse(item) == "globals()" for item in (*given, *stored, *updated))


def _executed(project: Project, asked: tuple[ModuleNames, str]) -> tuple[Source, ...]:
    module, name = asked
    found: list[Source] = []
    for config in config_files(project, (name,), (FileKind.SHELL, FileKind.ENV)):
        near = config.document.path
        for entry in config.text.entries if not purpose_of(near).is_left_alone else ():
            is_own = entry.kind == "flag" and entry.name == f"--{name}"
            if is_own and runs_one_of(project, near, entry.command, {module.path}):
                found.append(entry_source(config, entry))
    for other in modules_at(project, python_files_passed(project, module.path)):
        bindings = other.module_scope.bindings.get(name, ())
        values = (item.value for item in bindings if item.value is not None)
        found += filter(None, (literal_source("entry", other, value, name) for value in values))
    return tuple(found)


def constructions_of(project: Project, option: Option) -> Sequence[tuple[ModuleNames, ast.expr | None]]:
    """The calls of the class whose field an option is, each with what it passes for it; None: the default counts."""
    owner = option.module.scope_of(option.node).node if option.kind == "field" else None
    if not isinstance(owner, ast.ClassDef):
        return ()
    found: list[tuple[ModuleNames, ast.expr | None]] = []
    for module in modules_with(project, (owner.name,)):
        for call in module.calls_by_name.get(owner.name, ()) if not is_test(module.path) else ():
            found.append((module, next((item.value for item in call.keywords if item.arg == option.name), None)))
    return found
