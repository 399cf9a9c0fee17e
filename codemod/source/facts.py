"""Facts: functions of a project, or of a project and something in it, that are computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from .project import Project

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Key = TypeVarTuple("Key")
T = TypeVar("T")


def fact(compute: Callable[[Project], T]) -> Callable[[Project], T]:
    """Let a function of the project be computed once (`Project.fact`)."""

    @wraps(compute)
    def asked(project: Project) -> T:
        return project.fact(compute)

    return asked


def memo(compute: Callable[[Project, Unpack[Key]], T]) -> Callable[[Project, Unpack[Key]], T]:
    """Let a function of the project and modules, names or nodes be computed once for each (`Project.memo`)."""

    def of(project: Project, key: tuple[Unpack[Key]]) -> T:
        return compute(project, *key)

    of.__module__, of.__qualname__ = compute.__module__, compute.__qualname__

    @wraps(compute)
    def asked(project: Project, *key: Unpack[Key]) -> T:
        return project.memo(of, key)

    return asked
