"""Facts: functions of a project, or of a project and something in it, that are computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, TypeVar

from .project import Project

if TYPE_CHECKING:
    from typing_extensions import TypeVarTuple, Unpack

    Key = TypeVarTuple("Key")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


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


def of_each(project: Project, part: Callable[[Project, K], Iterable[T]], keys: Iterable[K]) -> Iterator[T]:
    """What ``part`` says of each of some things that are known of the whole project, whatever is checked.

    A rule that goes through them says the same when it is asked about each file by itself: it is found once.
    """
    for key in keys:
        yield from project.memo(_all, (part, key))


def _all(project: Project, asked: tuple[Callable[[Project, K], Iterable[T]], K]) -> tuple[T, ...]:
    part, key = asked
    return tuple(part(project, key))
