"""Where a tensor got its dtype, as evidence."""

from __future__ import annotations

from collections.abc import Iterable

from ...codemod.flow.lattice import Atom
from ...codemod.model import Place
from ...codemod.source.project import Project
from .clashes import MAX_STEPS, chain_of


def atom_places(project: Project, atoms: Iterable[Atom]) -> tuple[Place, ...]:
    """The first steps of the chains of some atoms, each place once."""
    found: dict[tuple[str, int, str], Place] = {}
    for atom in atoms:
        for step in chain_of(atom)[:MAX_STEPS]:
            document = project.document(step.path)
            if document is not None and hasattr(step.node, "lineno"):
                place = Place(step.path, document.span(step.node), step.text)
                found.setdefault((place.path, place.span.row, place.message), place)
    return tuple(found.values())
