"""Switches that a subclass of a trainer's arguments has on by default: ``bf16: bool = True``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from ....codemod.model import Edit
from ....codemod.purpose.files import purpose_of
from ....codemod.python.class_fields import declared_fields, default_of_field
from ....codemod.python.functions import all_bases
from ....codemod.python.names import ModuleNames, modules_with, resolve
from ....codemod.source.project import Project
from ....codemod.trainers.writing.moves import Move

SWITCHES = {"fp16-mixed": ("bf16", "fp16"), "bf16-mixed": ("fp16", "bf16")}
"""Per target the switch that goes off, and the one that goes on."""
OWNERS = ("transformers.", "trl.")
"""Packages whose arguments have both switches, off unless they are given."""
READ = "what else reads the field by its name is not known"


def moves(project: Project) -> Iterator[Move]:
    """The other switch for every such class; a launch line that gives one is a place of its own."""
    off, on = SWITCHES.get(project.target or "", ("", ""))
    for module in modules_with(project, (off,), ("class ",)) if off else ():
        for node in module.of_type(ast.ClassDef):
            fields = declared_fields(node)
            asks = _is_on(fields.get(off)) and not _is_on(fields.get(on)) and not purpose_of(module.path).is_foreign
            if asks and _is_of_trainer(project, module, node):
                yield _move(project, module, fields, off, on)


def _value(field: ast.AnnAssign | None) -> ast.expr | None:
    return default_of_field(field.value) if field is not None else None


def _is_on(field: ast.AnnAssign | None) -> bool:
    value = _value(field)
    return isinstance(value, ast.Constant) and value.value is True


def _is_of_trainer(project: Project, module: ModuleNames, node: ast.ClassDef) -> bool:
    bases = all_bases(project, module, module.scopes[node])
    return any((resolve(project, *base) or "").startswith(OWNERS) for base in bases)


def _move(project: Project, module: ModuleNames, fields: Mapping[str, ast.AnnAssign], off: str, on: str) -> Move:
    field, other = fields[off], _value(fields.get(on))
    value = _value(field)
    assert value is not None
    if on not in fields:
        edits: tuple[Edit, ...] = (module.replace(field.target, on),)
    elif other is not None:
        edits = (module.replace(value, "False"), module.replace(other, "True"))
    else:
        edits = ()
    message = f"{off} is on by default here; the target is {project.target}"
    return Move(module.path, module.document.span(value), message, f"{on} is on instead", edits, unproved=READ)
