"""The runs of a project that are not at its target: what a move has to admit when it is done."""

from __future__ import annotations

from ...outcome import RunReport
from ...purpose.files import purpose_of
from ...purpose.training import only_infers
from ...source.project import Project
from ..reading.auditing import ledger_of

UNDECIDED = "unknown"


def runs_off_target(project: Project) -> tuple[RunReport, ...]:
    """The runs that certainly compute in another regime than the target; those that only infer are left out."""
    target = project.target
    runs = ledger_of(project).runs if target is not None else ()
    return tuple(run for run in runs if run.regime not in (UNDECIDED, target) and not _is_left_alone(project, run))


def _is_left_alone(project: Project, run: RunReport) -> bool:
    purpose = purpose_of(run.path)
    return purpose.is_foreign or (run.path.endswith(".py") and only_infers(project, run.path))
