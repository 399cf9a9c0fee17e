"""The one place that calls a fix safe."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ..model import Applicability, Edit, Fix
from ..source.project import Project
from .inserted import needs_of
from .needs import Need, Rehearsed, Release, RunsWith


def proved(project: Project, name: str, message: str, edits: Iterable[Edit], *needs: Need) -> Fix:
    """A fix that is safe where all of ``needs``, and what its new code needs, is known; else unsafe, and says why.

    What the new code needs (names with a value, attributes, releases of PyTorch) is read off the edits; ``needs`` is
    what only the rule knows. A rule with nothing to add says why nothing can change: `SameResult`.
    """
    if not needs:
        raise TypeError(f"the fix {name!r} does not say why it is safe")
    listed = tuple(dict.fromkeys(edits))
    beside = [need.module for need in needs if isinstance(need, RunsWith)]
    everything = (*needs, *(need for need in needs_of(project, listed, beside) if not _is_covered(need, needs)))
    unknown = {need: text for need in everything if (text := need.missing(project))}
    message = _with_demands(message, [need for need in everything if need not in unknown])
    if unknown:
        why = " and ".join(dict.fromkeys(unknown.values()))
        return Fix(name, f"{message}; unsafe, as {why}", Applicability.UNSAFE, listed)
    return Fix(name, message, Applicability.SAFE, listed)


def _is_covered(need: Need, others: Iterable[Need]) -> bool:
    """Whether a release is asked for already by the rule, which has better words for it."""
    return isinstance(need, Release) and any(isinstance(item, Release) and item.covers(need) for item in others)


def _with_demands(message: str, needs: Collection[Need]) -> str:
    """The message, the releases that the new code asks for, and the rehearsal that it rests on."""
    demands = dict.fromkeys(need.demand for need in needs if isinstance(need, Release))
    new = [demand for demand in demands if demand not in message]
    told = f"{message}; needs {' and '.join(new)} or newer" if new else message
    return "; ".join(dict.fromkeys([told, *(need.condition for need in needs if isinstance(need, Rehearsed))]))
