"""What a fix needs to be right in every run, as data: each need says what is not known of it in a project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from packaging.version import Version

from ..python.names import ModuleNames
from ..releases.pins import allowed
from ..source.project import Project


class Need(Protocol):
    """Something that must hold in every run, for every object and with every release that the project allows."""

    def missing(self, project: Project) -> str:
        """What is not known, to stand behind "unsafe, as"; empty where all of it is known."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """A fact that the rule, or the dtype flow, has looked up: the operand is a tensor, a module owns parameters."""

    holds: bool
    otherwise: str
    """What is not known where it does not hold."""

    def missing(self, project: Project) -> str:
        return "" if self.holds else self.otherwise


@dataclass(frozen=True, slots=True)
class SameResult:
    """A claim that no project can change: ``why`` every run that did not crash here gives what it gave before."""

    why: str

    def missing(self, project: Project) -> str:
        """Nothing: whoever reads the rule has to agree with ``why``."""
        return ""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What no reading can tell, seen in a rehearsal: proof for the runs that are like it, so the message names it."""

    command: str
    changed: tuple[str, ...] = ()
    """Files of that run that have changed since."""

    @property
    def condition(self) -> str:
        """What the promise rests on, for the fix's message."""
        return f"proved by the rehearsal of {self.command}"

    def missing(self, project: Project) -> str:
        """The files that are no longer what ran."""
        return f"{' and '.join(self.changed[:2])} changed after the rehearsal of {self.command}" if self.changed else ""


@dataclass(frozen=True, slots=True, eq=False)
class RunsWith:
    """Every run that needs the fix executes ``module`` too: the releases which that one needs are there."""

    module: ModuleNames

    def missing(self, project: Project) -> str:
        """Nothing: it only helps to know which releases a run has."""
        return ""


@dataclass(frozen=True, slots=True)
class Release:
    """Every release of ``package`` that the manifests nearest to the file ``near`` allow has ``what``."""

    package: str
    since: str
    near: str
    what: str

    @property
    def demand(self) -> str:
        """What the new code asks for, for the fix's message."""
        return f"{self.package} {self.since}"

    def covers(self, other: Release) -> bool:
        """Whether this one holds for no release for which ``other`` does not."""
        same = (self.package, self.near) == (other.package, other.near)
        return same and Version(self.since) >= Version(other.since)

    def missing(self, project: Project) -> str:
        """The pin that allows an older release, or that there is none."""
        versions = allowed(project, self.package, self.near)
        if versions is None:
            return f"no manifest here excludes releases of {self.package} that lack {self.what}"
        pin = versions.pin_below(self.since)
        if pin is None:
            return ""
        return f"{pin.place.path}:{pin.place.span.row} allows releases of {self.package} that lack {self.what}"


RAISES = SameResult("every run that gets here raises")
