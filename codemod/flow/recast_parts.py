"""What is known of the parts of a model that were cast to float32 after the whole."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from .lattice import Atom, Value


@dataclass(frozen=True, slots=True)
class Recast:
    """A part of a model that was cast to float32 after the whole."""

    path: tuple[str, ...]
    """The attributes and indices from the model to the part: ``("layers", "[-1]", "norm")``; none for the part."""
    atom: Atom
    whole: Atom
    """The 16-bit dtype that the model had then."""


def part_with(part: Value, recasts: Iterable[Recast], names: tuple[str, ...]) -> Value:
    """A part that its whole knows by one of ``names``, with what is float32 of it."""
    inside = tuple(replace(item, path=item.path[1:]) for item in recasts if item.path[:1] and item.path[0] in names)
    whole = next((item for item in inside if not item.path), None)
    if whole is not None:
        return replace(part, atoms=(whole.atom,) if part.atoms else (), recast=())
    return replace(part, recast=inside) if inside else part
