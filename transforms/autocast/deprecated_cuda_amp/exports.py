"""Imported AMP names that other files of the project take from a file: changing the import would change those too."""

from __future__ import annotations

from collections.abc import Iterator

from ....codemod.python.names import ModuleNames, modules_with, names_of
from ....codemod.source.facts import fact
from ....codemod.source.project import Project
from .deprecated_uses import WORDS

_OLD = ("torch.cuda.amp", "torch.cpu.amp")
_MAX_STAR_SOURCES = 100
_MAX_DEPTH = 12


@fact
def exported_names(project: Project) -> frozenset[tuple[str, str]]:
    """(path, name) of the imported AMP names that other files use."""
    candidates = {pair for module in _modules(project) for pair in _imported_from_torch(module)}
    names = {name for _, name in candidates}
    found: set[tuple[str, str]] = set()
    for module in _modules(project):
        for qualified in _mentioned(module, names):
            found |= _taken(project, qualified, names)
        for source in _star_sources(project, module):
            unbound = {name for name in names & module.name_loads.keys() if not module.module_scope.lookup(name)}
            found |= {(source.document.path, name) for name in unbound}
    return frozenset(found & candidates)


def is_star_imported(project: Project, module: ModuleNames) -> bool:
    """Whether some file takes all names of this one."""
    return any(module in _star_sources(project, other) for other in _modules(project))


def _modules(project: Project) -> Iterator[ModuleNames]:
    yield from modules_with(project, WORDS)


def _imported_from_torch(module: ModuleNames) -> Iterator[tuple[str, str]]:
    for name, bindings in module.module_scope.bindings.items():
        if any(binding.kind == "import" and (binding.qualified or "").startswith(_OLD) for binding in bindings):
            yield module.document.path, name


def _mentioned(module: ModuleNames, names: set[str]) -> Iterator[str]:
    """Dotted names with one of ``names`` in them that are not PyTorch's."""
    yield from (item.qualified or "" for item in module.imports if _is_foreign(item.qualified, names))
    for name in names:
        for node in module.attribute_loads.get(name, ()):
            qualified = module.qualified(node)
            if qualified is not None and _is_foreign(qualified, names):
                yield qualified


def _is_foreign(qualified: str | None, names: set[str]) -> bool:
    return qualified is not None and not qualified.startswith("torch.") and not names.isdisjoint(qualified.split("."))


def _taken(project: Project, qualified: str, names: set[str]) -> set[tuple[str, str]]:
    parts = qualified.split(".")
    found = set()
    for at in range(1, min(len(parts), _MAX_DEPTH)):
        path = project.python_path(".".join(parts[:at])) if parts[at] in names else None
        if path is not None:
            found.add((path, parts[at]))
    return found


def _star_sources(project: Project, module: ModuleNames) -> list[ModuleNames]:
    """The project's modules whose names a file takes by ``from x import *``, directly or through others."""
    found: list[ModuleNames] = []
    waiting = [name for name in module.star_imports if not name.startswith("torch")]
    while waiting and len(found) < _MAX_STAR_SOURCES:
        document = project.python_module(waiting.pop())
        other = names_of(project, document) if document is not None else None
        if other is not None and other is not module and other not in found:
            found.append(other)
            waiting += other.star_imports
    return found
