"""Settings in Python files that a program picks by a name: ``import_module(args.config).cfg``, ``fromfile(path)``.

Which of the files that is, only a run knows: what all of them say is what the project states.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...purpose.computed_names import IMPORTING
from ...purpose.files import purpose_of
from ...purpose.imports import connected_modules
from ...python.identifiers import words_of
from ...python.keywords import entries_of
from ...python.limits import MAX_OPTION_FILES
from ...python.names import ModuleNames, attribute_chain, names_of
from ...python.options import Option, options_in
from ...python.paths import function_of
from ...source.project import Project

PICKING = (*IMPORTING, "fromfile", "run_path", "spec_from_file_location", "SourceFileLoader")
"""Calls that run a Python file whose name the code need not hold."""
HOLDERS = frozenset(("cfg", "config", "configs", "conf", "settings", "hparams"))
"""What is in the names of what such a file holds, or is."""
RUNNING = (ast.For, ast.AsyncFor, ast.While, ast.With, ast.If, ast.Try)
"""Statements of programs: a file of settings has none of them outside of its functions."""


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
