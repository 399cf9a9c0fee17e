"""Which of the project's modules import which: read from the import statements, followed both ways."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator

from ..python.glimpses import words_of_imports
from ..python.names import ModuleNames, modules_at, names_of
from ..source.facts import memo
from ..source.project import Project
from .files import purpose_of
from .words import Purpose

MAX_IMPORTERS, MAX_CONNECTED, MAX_SEARCHED = 8, 80, 120
"""Bounds of the search for what has to do with a module: a project that needs more has no single source of a value."""


@memo
def imported_modules(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """The project's own modules that ``module`` imports, anywhere in it."""
    path = module.document.path
    documents = [project.python_module(name, path) for name in dict.fromkeys(imported_names(module))]
    modules = (names_of(project, item) for item in documents if item is not None)
    return tuple(dict.fromkeys(item for item in modules if item is not module))


def imported_names(module: ModuleNames) -> Iterator[str]:
    """The qualified names of all that ``module`` imports, anywhere in it."""
    yield from module.star_imports
    for binding in module.imports:
        if binding.qualified:
            yield binding.qualified
            if isinstance(binding.node, ast.ImportFrom):
                yield binding.qualified.rpartition(".")[0]
            elif isinstance(binding.node, ast.Import):  # ``import a.b`` binds ``a``, and imports both
                yield from (alias.name for alias in binding.node.names)


@memo
def importers_of(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """The project's modules that import ``module``."""
    return tuple(modules_at(project, project.fact(_importers, module.document.path)))


def _importers(project: Project, path: str) -> tuple[str, ...]:
    stem = path.rpartition("/")[2].removesuffix(".py")
    name = path.split("/")[-2] if stem == "__init__" and "/" in path else stem
    if not path.endswith(".py") or len(name) < 2:
        return ()
    spellings = (f"import {name}", f".{name}", f"{name} import", f", {name}")
    folders = path.split("/")[:-1]
    near = sorted(project.python_paths(spellings), key=lambda other: other.split("/")[:-1] != folders)
    possible = [other for other in near[:MAX_SEARCHED] if other != path and _may_import(project, other, name)]
    return tuple(sorted(other for other in possible if path in project.memo(_imported_paths, other)))


def _may_import(project: Project, path: str, name: str) -> bool:
    """Whether a file may import a module of this name: it says so, or stands in a package of this name."""
    return name in path.split("/")[:-1] or name in project.memo(_words_of_imports, path)


def _words_of_imports(project: Project, path: str) -> frozenset[str]:
    document = project.document(path)
    return words_of_imports(document.text) if document is not None else frozenset()


def _imported_paths(project: Project, path: str) -> frozenset[str | None]:
    """The files of the modules that a file imports: nothing else is parsed for that."""
    names = ((name, path) for module in modules_at(project, (path,)) for name in imported_names(module) if name)
    return frozenset(project.python_path(*each) for each in dict.fromkeys(names))


def reached_from(
    project: Project,
    starts: Iterable[ModuleNames],
    limit: int,
    enters: Callable[[Purpose], bool] = lambda purpose: purpose is not Purpose.TEST,
) -> tuple[ModuleNames, ...]:
    """``starts`` and what they import, directly or through others, near ones first."""
    found = dict.fromkeys(starts)
    waiting = list(found)
    while waiting and len(found) < limit:
        for module in imported_modules(project, waiting.pop(0)):
            if module not in found and enters(purpose_of(module.document.path)):
                found[module] = None
                waiting.append(module)
    return tuple(found)


@memo
def connected_modules(project: Project, module: ModuleNames) -> tuple[ModuleNames, ...]:
    """``module``, what it imports, and what imports it: where an object that it reads can come from."""
    found = [module, *imported_modules(project, module)]
    near = importers_of(project, module)
    for importer in [*near, *(other for item in near[:MAX_IMPORTERS] for other in importers_of(project, item))]:
        found += [importer, *_named_by(project, importer)]
    return tuple(dict.fromkeys(found))[:MAX_CONNECTED]


def _named_by(project: Project, module: ModuleNames) -> Iterator[ModuleNames]:
    """What ``module`` imports; a package stands for the modules that its ``__init__`` takes in."""
    for other in imported_modules(project, module):
        yield other
        if other.document.path.endswith("__init__.py"):
            yield from imported_modules(project, other)
