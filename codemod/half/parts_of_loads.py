"""Models that are an attribute of what a library loads: ``pipe.unet``, ``wrapper.model``."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from ..python.creations import CREATIONS, Creation, Made, creations_of
from ..python.names import ModuleNames, resolve
from ..python.trace import Domain, Trace, trace
from ..source.project import Project
from ..trainers.reading.loads import load_at

WITH_OWN_PARTS = ("trl.",)
"""Packages whose loads put parts of their own beside what they load, in float32 (a value head)."""


def models_made(project: Project, module: ModuleNames, node: ast.expr) -> tuple[Creation, ...]:
    """The calls that can have made a model, or loaded what it is a part of."""
    known = creations_of(project, module, node)
    if known:
        return known
    found = trace(project, module, node, PARTS)
    return () if None in found else tuple(item for item in found if item is not None)


def _part(question: Trace[Made], module: ModuleNames, node: ast.Attribute) -> Iterable[Made]:
    """The loads of the object whose attribute this is."""
    made_by = creations_of(question.project, module, node.value)
    if not made_by or not all(_loads_all(question.project, made) for made in made_by):
        return question.options(module, node)
    return [replace(made, names=tuple(replace(name, part=node.attr) for name in made.names)) for made in made_by]


def _loads_all(project: Project, made: Creation) -> bool:
    qualified = resolve(project, made.module, made.call.func) or ""
    return load_at(project, made.module, made.call) is not None and not qualified.startswith(WITH_OWN_PARTS)


PARTS: Domain[Made] = replace(CREATIONS, setting=_part)
"""The call that made an object, or that loaded what it is an attribute of."""
