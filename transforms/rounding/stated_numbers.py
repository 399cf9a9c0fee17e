"""The numbers that a setting is given in code, options, configuration files and launch lines."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.python.names import ModuleNames
from ...codemod.python.numbers import number_of
from ...codemod.source.project import Project
from ...codemod.torch.dtypes import Constant
from ...codemod.trainers.reading.links import sources


@dataclass(frozen=True, slots=True)
class Stated:
    """A number, and where it is written."""

    value: float
    place: Place


def stated_numbers(project: Project, module: ModuleNames, node: ast.expr, name: str) -> tuple[Stated, ...]:
    """Every number that ``node`` can be, called ``name`` for people; empty where any value is not a number."""
    value = number_of(project, module, node)
    if value is not None:
        return (Stated(value, module.place(node, f"{name} is {value:g} here")),) if math.isfinite(value) else ()
    found = tuple(_of_sources(project, module, node, name))
    return tuple(item for item in found if item is not None) if None not in found else ()


def _of_sources(project: Project, module: ModuleNames, node: ast.expr, name: str) -> Iterator[Stated | None]:
    for source in sources(project, module, node):
        value = _number(source.value)
        if source.value is not None:
            yield Stated(value, source.place(f"{name} is {value:g} here")) if value is not None else None


def _number(value: Constant) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(_default_of(value) if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _default_of(text: str) -> str:
    """``2e-5`` of a shell's ``${LR:-2e-5}``; other texts as they are."""
    inner = text.removeprefix("${").removesuffix("}")
    return inner.partition(":-")[2] if text.startswith("${") and ":-" in inner else text


def largest(numbers: tuple[Stated, ...]) -> Stated | None:
    """The largest of several numbers."""
    return max(numbers, key=lambda item: item.value, default=None)
