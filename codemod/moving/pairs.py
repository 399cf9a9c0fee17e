"""The runs of a project before and after a move, each with its twin."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..model import Finding, Fix, Place
from ..outcome import Declaration, RunEntry, RunMove, RunReport
from ..source.documents import FileKind, kind_of
from ..source.project import Project
from ..trainers.framework import FrameworkKey
from ..trainers.reading.auditing import OFF, Ledger
from ..trainers.reading.recognition import stands_at
from ..trainers.reading.run_files import has_unseen_bases

UNKNOWN, FP32 = "unknown", "fp32"
PYTHON = ".py"


@dataclass(frozen=True, slots=True)
class RunPair:
    """One run before and after; ``after`` is None where the new texts have no such run any more."""

    before: RunReport
    after: RunReport | None
    is_run: bool
    """Whether it is seen to be started; else it is a file that no run reaches."""
    rows: Collection[int]
    """The rows of its file that are its own: of a script with several launch lines those up to the next one."""

    @property
    def regime(self) -> str:
        """What it computes in after the move."""
        return self.after.regime if self.after is not None else UNKNOWN

    @property
    def entries(self) -> tuple[RunEntry, ...]:
        """What is said of it after the move."""
        return (self.after or self.before).entries

    @property
    def paths(self) -> frozenset[str]:
        """The files in which something is said of the run."""
        runs = [self.before, *([self.after] if self.after is not None else [])]
        return frozenset({self.before.path, *(entry.declaration.path for run in runs for entry in run.entries)})

    @property
    def declared(self) -> list[Declaration]:
        """The same as declarations."""
        return [entry.declaration for entry in self.entries]

    def is_touched(self, fix: Fix) -> bool:
        """Whether a fix changes a file in which something is said of the run."""
        return not self.paths.isdisjoint(edit.path for edit in fix.edits)

    def holds(self, finding: Finding) -> bool:
        """Whether a finding is about this run; in the file that starts it, whether it stands in its own rows."""
        return self.says(finding.path, finding.span.row)

    def says(self, path: str, row: int) -> bool:
        """Whether a place belongs to this run."""
        return row in self.rows if path == self.before.path else path in self.paths


def pairs_of(before: Ledger, after: Ledger) -> list[RunPair]:
    """Every run with its twin: the run that is as manieth in the same file, or has the same title there."""
    mine, theirs = _by_path(before), _by_path(after)
    started = {*before.runs, *before.silent}
    found = []
    for path, runs in mine.items():
        others = theirs.get(path, [])
        starts = sorted({run.row for run in runs if run.title != path})
        for number, run in enumerate(runs):
            same = [other for other in others if other.title == run.title]
            if len(others) == len(runs):
                same = [others[number]]
            found.append(RunPair(run, same[0] if same else None, run in started, _rows(run, starts)))
    return found


def at_default(project: Project, pair: RunPair) -> RunPair:
    """``pair``, in float32 where what had switched 16 bits on is gone, and nothing else says anything.

    That were flags, or variables of a configuration in Python whose bases are all seen.

    Their trainer is off where nothing is said; of a run without any declaration a ledger does not know that.
    """
    won = [entry.declaration for entry in pair.before.entries if entry.status == "wins"]
    tables = {framework.id: framework for framework in project.frameworks}
    keys = [
        (item, key)
        for item in won
        for key in (tables[item.framework].keys if item.framework in tables else ())
        if key.means and (item.key in key.flags or (_is_at(item, key) and item.path.endswith(PYTHON)))
    ]
    is_silent = pair.after is None or not any(item.regime or item.role == "compute" for item in pair.declared)
    if pair.regime != UNKNOWN or not won or not is_silent or len(keys) != len(won):
        return pair
    own = (pair.before.path, *(item.path for item, key in keys if _is_at(item, key)))
    if any(key.default != OFF or item.path not in own for item, key in keys):
        return pair
    if any(has_unseen_bases(project, path) for path in own if path.endswith(PYTHON)):
        return pair
    entries = pair.after.entries if pair.after is not None else ()
    return replace(pair, after=replace(pair.before, regime=FP32, entries=entries, otherwise="", default=""))


def _is_at(item: Declaration, key: FrameworkKey) -> bool:
    return any(stands_at(item.key, place) for place in key.places)


def only_own(project: Project, row: RunMove) -> RunMove:
    """``row`` without the lines of other launch scripts, which it neither reads nor is started by.

    Why a run is left may stand there alone: they share a file that would change.
    """
    if kind_of(row.path) is not FileKind.SHELL:
        return row
    why, still = (tuple(place for place in places if _is_own(project, row, place)) for places in (row.why, row.still))
    return replace(row, why=why or row.why, still=still)


def _is_own(project: Project, row: RunMove, place: Place) -> bool:
    if place.path == row.path or kind_of(place.path) is not FileKind.SHELL:
        return True
    mine, other = (project.document(path) for path in (row.path, place.path))
    names = (path.rpartition("/")[2] for path in (place.path, row.path))
    return any(item is None or name in item.text for item, name in zip((mine, other), names, strict=True))


def _rows(run: RunReport, starts: Sequence[int]) -> Collection[int]:
    if starts and run.title == run.path:  # what a file states beside the commands in it
        return {run.row, *(each.declaration.span.row for each in run.entries if each.declaration.path == run.path)}
    after = [row for row in starts if row > run.row]
    first = run.row if starts and run.row != starts[0] else 0
    return range(first, min(after, default=10**9))


def _by_path(ledger: Ledger) -> dict[str, list[RunReport]]:
    found: dict[str, list[RunReport]] = {}
    for run in sorted((*ledger.runs, *ledger.silent, *ledger.elsewhere), key=lambda run: (run.path, run.row)):
        found.setdefault(run.path, []).append(run)
    return found
