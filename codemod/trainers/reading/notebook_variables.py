"""What the Python cells of a notebook give the variables of its command lines: ``!python train.py --fp16 $FP16``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...python.names import names_of
from ...source.project import Project
from .configs import ConfigFile
from .source import Source, literal_source


def python_values(project: Project, config: ConfigFile, name: str) -> Iterator[Source]:
    """The literals of a variable of Python, seen from a command line; a shell's own cells (``%%bash``) see none."""
    start = config.within[0] if config.within is not None else 0
    if config.kind != "notebook" or config.document.text.startswith("%%", start):
        return
    module = names_of(project, config.document)
    for binding in module.module_scope.bindings.get(name, ()):
        value = binding.value if binding.kind == "assign" else None
        source = literal_source("variable", module, value, name) if value is not None else None
        if source is not None:
            yield replace(source, config=config)
