"""Whether a tensor is 16-bit at one place: the question that all rules about 16-bit numbers ask.

Answered from the tensor's origin inside its function and from what runs that function. An answer is given only where
the origin is certain; which runs there are may be the user's choice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ...codemod.model import Place
from ...codemod.purpose.regimes import speaks_of_precision
from ...codemod.purpose.runs import region_dtypes, runs_of, uses
from ...codemod.python.names import ModuleNames
from ...codemod.python.paths import guards
from ...codemod.python.values import values_of
from ...codemod.source.project import Project
from ...codemod.torch.autocast import Autocast, autocasts_in
from ...codemod.torch.dtypes import Dtype
from .origins import Origin, origin_of


@dataclass(frozen=True, slots=True)
class Half:
    """Why a tensor is, or can be, 16-bit here."""

    dtypes: frozenset[Dtype]
    """All 16-bit types it can have here."""
    certain: bool
    """Whether it is of such a type in every run; else only where autocast is on."""
    why: tuple[Place, ...]
    reached: bool = True
    """Whether what makes it so is seen to use this code; else it only stands in a folder around it."""


def half_here(project: Project, module: ModuleNames, node: ast.expr) -> Half | None:
    """The 16-bit types that the tensor ``node`` can have where it stands; None when none is certain to be possible."""
    if _is_told_apart(project, module, node):
        return None
    origin = origin_of(project, module, node)
    if origin is None:
        return None
    document = module.document
    if origin.dtype is not None:
        place = Place(document.path, document.span(origin.node), f"{origin.dtype.name} from here on")
        return Half(frozenset({origin.dtype}), True, (place,))
    place = Place(document.path, document.span(origin.node), "autocast computes this in 16 bits")
    return _under_autocast(project, module, origin, place)


def _is_told_apart(project: Project, module: ModuleNames, node: ast.AST) -> bool:
    """Whether a condition around the place already asks for the precision."""
    values = values_of(project, module)
    return any(speaks_of_precision(values, guard.test) for guard in guards(module, node))


def _under_autocast(project: Project, module: ModuleNames, origin: Origin, place: Place) -> Half | None:
    around = list(_regions_around(project, module, origin.node))
    if around:
        dtypes = frozenset() if around[0].device == "cpu" else region_dtypes(project, around[0])
        document = module.document
        why = Place(document.path, document.span(around[0].node), "the autocast around it")
        return Half(dtypes, False, (place, why)) if dtypes else None
    if _keeps_float32(project, module):
        return None  # parts of this file are in float32 on purpose, and this may be called from there
    runs = runs_of(project, module, origin.node)
    used = any(uses(project, run, module, origin.node) for run in runs)
    dtypes = frozenset(dtype for run in runs for dtype in run.dtypes)
    return Half(dtypes, False, (place, *(run.place for run in runs[:1])), used) if dtypes else None


def _keeps_float32(project: Project, module: ModuleNames) -> bool:
    return "custom_fwd" in module.attribute_loads or any(item.switched_off for item in autocasts_in(project, module))


def _regions_around(project: Project, module: ModuleNames, node: ast.AST) -> Iterator[Autocast]:
    """The autocasts entered around ``node`` in its function or as a decorator of it, innermost first."""
    made = {item.node: item for item in autocasts_in(project, module)}
    for parent in module.ancestors(node):
        if isinstance(parent, ast.With | ast.AsyncWith):
            yield from (made[item.context_expr] for item in reversed(parent.items) if item.context_expr in made)
        elif isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from (made[item] for item in parent.decorator_list if item in made)
