"""Where the option that code reads is declared, and what command lines give it.

Looked for by name in the module that reads the option, then in the modules it has to do with, and last in all that it
imports; the first of these places that declares it counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ...purpose.computed_names import IMPORTING
from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules, reached_from
from ...python.identifiers import words_of
from ...python.keywords import entries_of
from ...python.limits import MAX_OPTION_FILES
from ...python.names import FunctionNode, ModuleNames, attribute_chain, last_name, modules_at, names_of
from ...python.options import Option, options_in
from ...python.paths import function_of
from ...source.documents import Document, FileKind
from ...source.project import Project
from ..parsers.programs import MAX_MODULES, runs_only_as_script
from .configs import config_files
from .launch_flags import flags_given, lines_without, runs_one_of
from .loaded_files import python_files_passed
from .scopes import CodeOrigin, SettingScope
from .source import ValueSource, entry_source, literal_source

MAX_FILES = 60
"""Files that a program imports, near ones first, in which options are looked for."""
PICKING = (*IMPORTING, "fromfile", "run_path", "spec_from_file_location", "SourceFileLoader")
"""Calls that run a Python file whose name the code need not hold."""
HOLDERS = frozenset(("cfg", "config", "configs", "conf", "settings", "hparams"))
"""What is in the names of what such a file holds, or is."""
RUNNING = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.If, ast.Try)
"""Statements of programs: a file of settings has none of them outside of its functions."""
FILLS_FROM_FILES = frozenset(("jsonargparse", "lightning", "pytorch_lightning"))
"""Libraries whose command lines of functions also read files."""
FILLING = ("gin", "sacred")
"""Libraries whose decorators fill parameters from files of their own."""


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
                return [*found, *_of_other_programs(project, (module, other), name)]
    return (
        _in_passed_files(project, module, name)
        or _in_imported_files(project, module, name)
        or picked_settings(project, module, name)
    )


def _of_other_programs(project: Project, asked: tuple[ModuleNames, ModuleNames], name: str) -> Iterator[Option]:
    """What other programs that use the reading module declare, where one of them does: each says it for itself."""
    module, first = asked
    if not project.memo(_uses, asked):
        return
    for other in connected_modules(project, module):
        listed = options_in(project, other).get(name, ()) if other not in asked else ()
        if not listed or purpose_of(other.path).is_left_alone or not project.memo(_uses, (module, other)):
            continue
        if not (project.memo(_uses, (first, other)) or project.memo(_uses, (other, first))):
            yield from listed


def _uses(project: Project, asked: tuple[ModuleNames, ModuleNames]) -> bool:
    """Whether the second module is another one, and imports the first one."""
    module, other = asked
    return other is not module and module in reached_from(project, [other], MAX_FILES)


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


def values_given(project: Project, option: Option) -> Iterator[ValueSource]:
    """What launch scripts give an option, and what a switch is that they leave out; not the written default.

    Nothing of one whose words are converted: what comes out may be anything.
    """
    if option.conversion == "other":
        return
    given = list(flags_given(project, option)) if option.flags else []
    if option.is_switched:
        given += lines_without(project, option) if option.flags else ()
        if not given:
            module, absent = option.module, option.value_when_absent
            yield ValueSource("option", module.path, module.span(option.node), option.name, absent, "", is_switch=True)
    elif not given and is_none_when_absent(option):
        yield ValueSource("option", option.module.path, option.module.span(option.node), option.name, None, "")
    yield from given


def is_none_when_absent(option: Option) -> bool:
    """Whether argparse gives None for an option that a command line leaves out: ``add_argument("--resume")``."""
    call = option.node
    if not isinstance(call, ast.Call) or last_name(call.func) != "add_argument" or option.default is not None:
        return False
    named = {item.arg for item in call.keywords}
    return bool(option.flags) and named.isdisjoint(("required", "action", None))


def as_overridden(project: Project, module: ModuleNames, name: str, own: Iterable[ValueSource]) -> list[ValueSource]:
    """The sources of a variable, with what launches give it: ``--dtype=float16``, or a Python file that is executed.

    ``exec(open(path).read())`` of a program makes its variables options, and so does a function that is passed
    ``globals()``; what stands in the program are the defaults.
    """
    found = list(own)
    given = list(project.memo(_executed, (module, name))) if module.document.fact(_is_overridden) else []
    if not given:
        return found
    return [replace(item, kind="option") if item.kind == "constant" else item for item in found] + given


def is_set_again(scope: SettingScope) -> bool:
    """Whether it is the variables of a program that lets its command line, or files named there, set them again."""
    origin = scope.origin if scope.is_of_module else None
    return isinstance(origin, CodeOrigin) and origin.module.document.fact(_is_overridden)


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


def _executed(project: Project, asked: tuple[ModuleNames, str]) -> tuple[ValueSource, ...]:
    module, name = asked
    found: list[ValueSource] = []
    for config in config_files(project, (name,), (FileKind.SHELL, FileKind.ENV)):
        near = config.document.path
        for entry in config.text.entries if not purpose_of(near).is_left_alone else ():
            is_own = entry.kind == "flag" and entry.name == f"--{name}"
            if is_own and runs_one_of(project, near, entry.command, {module.path}):
                found.append(entry_source(config, entry))
    for other in modules_at(project, python_files_passed(project, module.path)):
        bindings = other.defined(name)
        values = (item.value for item in bindings if item.value is not None)
        found += filter(None, (literal_source("entry", other, value, name) for value in values))
    return tuple(found)


def picked_settings(project: Project, module: ModuleNames, name: str) -> Sequence[Option]:
    """The settings ``name`` in all files of which the program of ``module`` picks one."""
    picks = any(project.memo(_picks, other) for other in connected_modules(project, module))
    return project.memo(_settings_called, name) if picks else ()


def _picks(_project: Project, module: ModuleNames) -> bool:
    """Whether a module is loaded by a name that is computed, and what it holds is called like settings."""
    return any(
        not all(isinstance(item, ast.Constant) for item in call.args) and _is_for_settings(module, call)
        for name in PICKING
        for call in module.calls_by_name.get(name, ())
    )


def _is_for_settings(module: ModuleNames, call: ast.Call) -> bool:
    """``cfg = import_module(path)``, ``import_module(args.config)``, ``def load_config(path)``; no class of models."""
    nodes = list(ast.walk(module.statement_of(call)))
    owners = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    names = {node.id for node in nodes if isinstance(node, ast.Name) and node not in owners}
    names |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names.add(getattr(function_of(module, call), "name", ""))
    return any(not HOLDERS.isdisjoint(words_of(name)) for name in names)


def _settings_called(project: Project, name: str) -> tuple[Option, ...]:
    documents = [item for item in project.python_documents((name,)) if not purpose_of(item.path).is_left_alone]
    modules = [names_of(project, item) for item in documents] if len(documents) <= MAX_OPTION_FILES else []
    return tuple(item for module in modules if _is_of_settings(module) for item in _settings(project, module, name))


def _is_of_settings(module: ModuleNames) -> bool:
    return not any(isinstance(statement, RUNNING) for statement in module.tree.body)


def _settings(project: Project, module: ModuleNames, name: str) -> Iterator[Option]:
    """``cfg.amp = False``, ``amp = False``, ``cfg = dict(amp=False)`` and ``class Config: amp = False`` of one file."""
    for item in options_in(project, module).get(name, ()):
        owner = getattr(module.scope_of(item.node).node, "name", "cfg")
        if item.kind == "field" and not HOLDERS.isdisjoint(words_of(owner)):
            yield replace(item, is_guessed=True)
    for bindings in module.module_scope.bindings.values():
        for binding in bindings:
            value = binding.value if binding.kind == "assign" else None
            held = value if binding.name == name else _entry(module, value, name) if value is not None else None
            if held is not None:
                yield Option(module, binding.node, "field", name, (), held, is_guessed=True)


def _entry(module: ModuleNames, value: ast.expr, name: str) -> ast.expr | None:
    """What a dictionary, or an object that is made of keywords, holds under a name."""
    if isinstance(value, ast.Call) and attribute_chain(value.func) is not None:
        return next((item.value for item in value.keywords if item.arg == name), None)
    return (entries_of(module, value) or {}).get(name) if isinstance(value, ast.Dict) else None
