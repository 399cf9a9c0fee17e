"""What a rehearsal saw of the files as they are now: where each thing stands in the syntax trees."""

from __future__ import annotations

import ast
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..model import Finding, Place, Span
from ..source.project import Project
from .names import ModuleNames, modules_at

if TYPE_CHECKING:
    from ..observed.observation import Failure, Observation, SeenValue

MAX_ERROR = 160
"""Characters of an error that are shown."""


class Seen:
    """The parts of an observation that speak of files which have not changed since; get it by `seen_of`."""

    def __init__(self, project: Project, observation: Observation) -> None:
        self.observation = observation
        self._project = project
        self.stale = tuple(path for path in sorted(observation.files) if not _is_as_seen(project, observation, path))
        """The files that have changed, or are gone."""
        self._known = observation.files.keys() - {*self.stale}
        self.failures = tuple(each for each in observation.failures if each.path in self._known)
        death = observation.died
        self.died = death if death is not None and death.path in self._known else None
        self._values: dict[str, dict[Span, SeenValue]] = defaultdict(dict)
        for each in observation.values:
            if each.path in self._known:
                self._values[each.path][each.span] = each

    def dtypes_of(self, module: ModuleNames, node: ast.expr) -> tuple[str, ...]:
        """Every dtype that an expression had; none where it was not seen."""
        known = self._values.get(module.path)
        value = known.get(module.document.span(node)) if known else None
        return value.dtypes if value is not None else ()

    def place_of(self, failure: Failure) -> Place:
        """Where something failed, as evidence tells it."""
        error = " ".join(failure.error.split())
        short = error if len(error) <= MAX_ERROR else f"{error[: MAX_ERROR - 3]}..."
        behind = ", behind an earlier failure" if failure.assumed else ""
        text = f"the rehearsal of {self.observation.name} raises here{behind}: {short}"
        return Place(failure.path, failure.span, text)

    def module_of(self, failure: Failure) -> ModuleNames | None:
        """The file in which something failed."""
        return next(modules_at(self._project, [failure.path]), None)


def seen_of(project: Project) -> Seen | None:
    """What was seen of a project; None where there is no observation."""
    return project.fact(_seen) if project.observation is not None else None


def raised(project: Project, words: str, told: Iterable[Finding]) -> Iterator[Place]:
    """Where a rehearsal saw an error with these words of which no finding tells: for the rule that knows the words."""
    seen = seen_of(project)
    known = {
        (place.path, row)
        for finding in told
        for place in (Place(finding.path, finding.span, ""), *finding.evidence)
        for row in range(place.span.row, place.span.end_row + 1)
    }
    for failure in seen.failures if seen is not None else ():
        at = failure.path, failure.span.row
        if seen is not None and words in failure.error and at not in known and project.is_checked(failure.path):
            yield seen.place_of(failure)


def raised_at(project: Project, module: ModuleNames, node: ast.expr, words: str) -> Place | None:
    """Where a rehearsal saw an error with these words raised by an expression."""
    seen, span = seen_of(project), module.document.span(node)
    if seen is None:
        return None
    here = (each for each in seen.failures if each.path == module.path and words in each.error)
    exact = seen.observation.has_columns
    found = (each for each in here if each.span == span or (not exact and span.row <= each.span.row <= span.end_row))
    return next(map(seen.place_of, found), None)


def _seen(project: Project) -> Seen | None:
    return Seen(project, project.observation) if project.observation is not None else None


def _is_as_seen(project: Project, observation: Observation, path: str) -> bool:
    document = project.document(path) if path in project.paths else None
    return document is not None and hashlib.sha256(document.data).hexdigest() == observation.files[path]


def expressions_of(module: ModuleNames) -> dict[Span, ast.expr]:
    """The expressions of a file by where they stand; of two at one place the outer one."""
    found: dict[Span, ast.expr] = {}
    for node in module.nodes:
        if isinstance(node, ast.expr) and hasattr(node, "lineno"):
            found.setdefault(module.document.span(node), node)
    return found
