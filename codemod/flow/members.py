"""Members of enumerations that are asked for with every expression."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar, cast

E = TypeVar("E", bound=type[Enum])


def plainly(kind: E) -> E:
    """The members of an enumeration in a plain class, where they are found at once, and hashed by what they are.

    Up to Python 3.11 each look at ``Kind.TENSOR`` goes through a method of the enumeration, and each hash through
    another one.
    """
    kind.__hash__ = object.__hash__  # type: ignore[method-assign]
    return cast(Any, type(kind.__name__, (), dict(kind.__members__)))  # type: ignore[no-any-return]
