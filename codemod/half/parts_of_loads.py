"""Models that are an attribute of what a library loads (``pipe.unet``), or of an object of the project's own class."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from ..python.creations import CREATIONS, Creation, MaybeCreation, ObjectName, creations_of
from ..python.functions import attribute_bindings, class_of
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


def _part(question: Trace[MaybeCreation], module: ModuleNames, node: ast.Attribute) -> Iterable[MaybeCreation]:
    """The loads of the object whose attribute this is, or what its class of the project stores there."""
    made_by = creations_of(question.project, module, node.value)
    if made_by and all(_loads_all(question.project, made) for made in made_by):
        return [replace(made, names=_names_of_part(made, node.attr)) for made in made_by]
    stored = _stored(question, made_by[0], node.attr) if len(made_by) == 1 and not made_by[0].through else ()
    if not stored or None in stored:
        return question.options(module, node)
    names = _names_of_part(made_by[0], node.attr)
    return [replace(item, names=(*names, *item.names)) for item in stored if item is not None]


def _names_of_part(made: Creation, part: str) -> tuple[ObjectName, ...]:
    return tuple(replace(name, part=part) for name in made.names)


def _stored(question: Trace[MaybeCreation], made: Creation, attribute: str) -> tuple[MaybeCreation, ...]:
    """What made the attribute of an object of the project's own class."""
    owner = class_of(question.project, made.module, made.call.func)
    if owner is None:
        return ()
    holder, stores = attribute_bindings(question.project, *owner, attribute)
    return tuple(found for binding in stores for found in question.of_binding(holder, binding))


def _loads_all(project: Project, made: Creation) -> bool:
    qualified = resolve(project, made.module, made.call.func) or ""
    return load_at(project, made.module, made.call) is not None and not qualified.startswith(WITH_OWN_PARTS)


PARTS: Domain[MaybeCreation] = replace(CREATIONS, setting=_part)
"""The call that made an object, or that loaded what it is an attribute of."""
