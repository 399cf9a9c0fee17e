"""Keys of the project's own configuration files that no code names."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ....codemod.model import Draft
from ....codemod.purpose.imports import reached_from
from ....codemod.purpose.training import training_modules
from ....codemod.python.names import ModuleNames, modules_at
from ....codemod.source.documents import FileKind
from ....codemod.source.project import Project
from ....codemod.trainers.reading.configs import TextEntry, config_files
from ....codemod.trainers.reading.loaded_files import is_loaded_without_trainer, loaders_of
from .options import MAX_MODULES
from .scaler_alone import imports_only_known
from .words import WORDS, is_asked, is_on_anyway, names_precision

KINDS = (FileKind.YAML, FileKind.JSON, FileKind.TOML)


def unread_keys(project: Project) -> Iterator[Draft]:
    """``train: {fp16: true}`` where the program that loads the file has no ``fp16`` in its code."""
    for config in config_files(project, WORDS, KINDS):
        path = config.document.path
        if config.is_data or not project.is_checked(path) or not is_loaded_without_trainer(project, path):
            continue
        program = _program(project, path)
        for entry in config.text.entries if program else ():
            if _asks(entry) and not any(_says(module, entry.name) for module in program):
                loaders = ", ".join(sorted(loaders_of(project, path)))
                message = f"{entry.name} has no effect: the program that loads this file ({loaders}) never names it"
                yield Draft.at(config, entry, message)


def _asks(entry: TextEntry) -> bool:
    """Whether an entry asks for 16 bits."""
    is_plain = entry.kind == "pair" and entry.is_scalar and isinstance(entry.value, bool | str)
    return is_plain and names_precision(entry.name, entry.value is True) and is_asked(entry.value)


def _program(project: Project, path: str) -> tuple[ModuleNames, ...]:
    """The code of the programs that load a file, where they train and import nothing that might read it unseen."""
    loaders = [*modules_at(project, sorted(loaders_of(project, path)))]
    found = tuple(reached_from(project, loaders, MAX_MODULES))
    if len(found) >= MAX_MODULES or set(training_modules(project)).isdisjoint(found):
        return ()
    hidden = (not imports_only_known(project, item) or is_on_anyway(project, item, item.tree) for item in found)
    return () if any(hidden) else found


def _says(module: ModuleNames, name: str) -> bool:
    """Whether a file has the name, or a text that holds it."""
    return (
        name in module.name_loads
        or name in module.attribute_loads
        or name in module.attribute_stores
        or name in {item.name for item in module.all_bindings}
        or any(item.arg == name for item in module.of_type(ast.keyword))
        or any(isinstance(item.value, str) and name in item.value for item in module.of_type(ast.Constant))
    )
