"""What the Python cells of a notebook give the variables of its command lines: ``!python train.py --fp16 $FP16``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...python.names import names_of
from ...source.project import Project
from .configs import ConfigFile
from .source import Source, literal_source


def python_values(project: Project, config: ConfigFile, name: str) -> Iterator[Source]:
    """The literals of a variable of Python that a command line sees, if these are all that it gets.

    A shell's own cells (``%%bash``) see none.
    """
    start = config.within[0] if config.within is not None else 0
    if config.kind != "notebook" or config.document.text.startswith("%%", start):
        return
    module = names_of(project, config.document)
    bindings = module.module_scope.bindings.get(name, ())
    values = [binding.value if binding.kind == "assign" else None for binding in bindings]
    found = [literal_source("variable", module, value, name) for value in values if value is not None]
    known = [replace(source, config=config) for source in found if source is not None]
    yield from known if len(known) == len(bindings) else ()
