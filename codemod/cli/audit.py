"""``precfix audit``: every place that states a precision, what wins, what is overridden, what contradicts.

With ``--plan`` also what a move would make of each run, carried out in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..model import UsageError
from ..outcome import Report, RunMove, RunReport
from ..screening.selection import Selection
from ..source.named_cells import in_cells
from ..source.project import Project
from .answering import looked_at
from .commands import AuditRequest
from .options import Format, TargetChoice
from .output import exit_code, places_in, progress, show_lines, write_bytes
from .request import Opened, open_request, options_of

FAMILIES = ("PF101", "PF302", "PF4", "PF5")
"""Rules about declarations that contradict each other."""


def run_audit(request: AuditRequest) -> int:
    """Write the ledger; returns the exit code: 0, or 2 when a named file cannot be read, 3 when a rule failed.

    With ``--plan`` 1 while a run would be left.
    """
    from .. import engine
    from ..half.weighed_ledger import weighed_ledger
    from ..report.audit_report import markdown_audit, show_audit
    from ..report.json_report import to_json

    _check_combination(request)
    opened = open_request(request)
    project, target = opened.project.with_target(None), opened.target
    families = Selection(FAMILIES)
    rules = [rule for rule in opened.known if families.takes(rule)]
    with progress(len(project.paths)) as step:
        report: Report = engine.check(project, rules, target, options_of(opened, step=step))
    report = opened.completed(replace(report, moves=_planned(opened, request)))
    looked_at(opened, request, report)
    ledger = weighed_ledger(project, report.findings)
    places = places_in(project)
    runs, elsewhere = _in_cells(project, ledger.runs), _in_cells(project, ledger.elsewhere)
    if request.output_format is Format.JSON:
        text = to_json(report, places, declarations=ledger.declarations, runs=runs, elsewhere=elsewhere)
        write_bytes(text.encode(), request.output)
    elif request.output_format is Format.MARKDOWN:
        write_bytes(markdown_audit(runs, elsewhere, report, replace(places, prefix="")).encode(), request.output)
    else:
        lines = show_audit(runs, elsewhere, report, replace(places, prefix=""))
        show_lines(lines, request.output, request.color.wanted)
    return exit_code(report, any(run.is_left for run in report.moves), opened.named)


def _in_cells(project: Project, runs: Sequence[RunReport]) -> tuple[RunReport, ...]:
    """Runs whose notes name places in notebooks as a reader sees them."""
    noted = ([replace(entry, note=in_cells(project, entry.note)) for entry in run.entries] for run in runs)
    return tuple(replace(run, entries=tuple(entries)) for run, entries in zip(runs, noted, strict=True))


def _check_combination(request: AuditRequest) -> None:
    if not request.plan and (request.to is not TargetChoice.AUTO or request.unsafe_fixes is not None):
        raise UsageError("--to and --unsafe-fixes require --plan")


def _planned(opened: Opened, request: AuditRequest) -> tuple[RunMove, ...]:
    """What `migrate` would do to each run."""
    from ..moving.carrying import move

    if not request.plan:
        return ()
    if opened.project.target is None:
        raise UsageError("--plan requires --to, or a target in the settings")
    with progress(len(opened.project.paths)) as step:
        allowed = options_of(opened, request.unsafe_fixes, step=step)
        return move(opened.project, opened.rules, opened.target, allowed, opened.known).moves
