"""A run on a GPU and its rehearsal: where the rehearsal was wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .observation import Failure, Observation

MAX_ERROR = 120


def disagreements(recorded: Observation, rehearsed: Observation) -> tuple[str, ...]:
    """One sentence for each; losses say nothing, as both draw other random numbers."""
    return (*_failures(recorded, rehearsed), *_values(recorded, rehearsed), *_training(recorded, rehearsed))


def _failures(recorded: Observation, rehearsed: Observation) -> Iterator[str]:
    real, simulated = _by_place(recorded), _by_place(rehearsed)
    for place in sorted(real.keys() - simulated.keys()):
        yield f"{place[0]}:{place[1]}: the GPU raises, the rehearsal does not: {real[place].said(MAX_ERROR)}"
    for place in sorted(simulated.keys() - real.keys()):
        yield f"{place[0]}:{place[1]}: the rehearsal raises, the GPU does not: {simulated[place].said(MAX_ERROR)}"
    for place in sorted(real.keys() & simulated.keys()):
        if real[place].kind is not simulated[place].kind:
            kinds = f"{real[place].kind.value} on the GPU, {simulated[place].kind.value} in the rehearsal"
            yield f"{place[0]}:{place[1]}: {kinds}"


def _by_place(observation: Observation) -> Mapping[tuple[str, int], Failure]:
    return {(each.path, each.span.row): each for each in reversed(observation.failures)}


def _values(recorded: Observation, rehearsed: Observation) -> Iterator[str]:
    known = {(each.path, each.span): each for each in rehearsed.values}
    for value in recorded.values:
        other = known.get((value.path, value.span))
        if other is not None and other.dtypes != value.dtypes:
            dtypes = f"{' or '.join(value.dtypes)} on the GPU, {' or '.join(other.dtypes)} in the rehearsal"
            yield f"{value.path}:{value.span.row}:{value.span.column}: {dtypes}"


def _training(recorded: Observation, rehearsed: Observation) -> Iterator[str]:
    one = {"optimizer steps": str(recorded.steps), **recorded.training.dtypes}
    other = {"optimizer steps": str(rehearsed.steps), **rehearsed.training.dtypes}
    for name, seen in one.items():
        if seen != other[name]:
            yield f"{name}: {seen or 'none'} on the GPU, {other[name] or 'none'} in the rehearsal"
