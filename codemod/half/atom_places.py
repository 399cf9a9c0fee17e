"""Where a tensor got its dtype, as evidence."""

from __future__ import annotations

from collections.abc import Iterable

from ..flow.lattice import Atom, Source
from ..model import Place
from ..purpose.proved_reach import can_run
from ..python.names import names_of
from ..source.project import Project

MAX_STEPS = 4
"""Steps of one evidence chain that are shown."""


def chain_of(atom: Atom) -> list[Source]:
    """The steps that gave an atom its dtype, oldest first."""
    steps: list[Source] = []
    source = atom.source
    while source is not None:
        steps.append(source)
        source = source.before
    return steps[::-1]


def steps_can_run(project: Project, atoms: Iterable[Atom]) -> bool:
    """Whether some run takes the branches in which atoms got their dtype."""
    for step in (step for atom in atoms for step in chain_of(atom)):
        document = project.document(step.path)
        module = names_of(project, document) if document is not None and hasattr(step.node, "lineno") else None
        if module is not None and step.node in module.parents and not can_run(project, module, step.node):
            return False
    return True


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
