"""Complex tables of rotations that are buffers of a model, which a cast of the model makes real."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ....codemod.flow.analysis import flow_of
from ....codemod.flow.classes import ProjectClass
from ....codemod.model import Place
from ....codemod.python.creations import creations_of
from ....codemod.python.names import ModuleNames, names_of
from ....codemod.source.project import Project
from .half_buffers import HalfBuffers, half_buffers

MAKING = ("torch.polar", "torch.view_as_complex")


@dataclass(frozen=True, slots=True)
class ComplexTable:
    """A complex buffer of a class that a training casts."""

    module: ModuleNames
    call: ast.Call
    """What registers it."""
    name: str
    made: Place
    buffers: HalfBuffers


def complex_tables(project: Project) -> Iterator[ComplexTable]:
    """The buffers that ``torch.polar`` makes, of models that ``to`` casts to 16 bits in a training."""
    cast = {symbol: item for symbol, item in half_buffers(project).items() if item.of_complex}
    for document in project.checked_documents(("register_buffer",)) if cast else ():
        module = names_of(project, document)
        for call in module.calls_by_name.get("register_buffer", []):
            owner, given = module.scope_of(call).enclosing_class, call.args
            buffers = cast.get(flow_of(project).own_weights(ProjectClass(module, owner)).symbol) if owner else None
            if buffers is None or len(given) < 2 or not isinstance(given[0], ast.Constant):
                continue
            if _is_made_again(project, str(given[0].value)):
                continue
            made_by = creations_of(project, module, given[1])
            if made_by and all(made.module.qualified(made.call.func) in MAKING for made in made_by):
                place = made_by[0].module.place(made_by[0].call, "its numbers are complex")
                yield ComplexTable(module, call, str(given[0].value), place, buffers)


def _is_made_again(project: Project, name: str) -> bool:
    """Whether code stores a table under the name: ``model.freqs_cis = table(...)`` after the cast."""
    modules = (names_of(project, document) for document in project.python_documents((name,)))
    return any(module.attribute_stores.get(name) for module in modules)
