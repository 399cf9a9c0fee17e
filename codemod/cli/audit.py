"""``precfix audit``: every place that states a precision, what wins, what is overridden, what contradicts."""

from __future__ import annotations

from ..outcome import Report
from ..screening.selection import Selection
from .answering import looked_at
from .commands import AuditRequest
from .options import AuditFormat
from .output import exit_code, json_of, locate_in, progress, show_lines, write_bytes
from .request import open_request, options_of

FAMILIES = ("PF101", "PF302", "PF4", "PF5")
"""Rules about declarations that contradict each other."""


def run_audit(request: AuditRequest) -> int:
    """Write the ledger; returns the exit code: 0, or 2 when a named file cannot be read, 3 when a rule failed."""
    from .. import engine
    from ..report.audit_report import markdown_audit, show_audit
    from ..trainers.reading.auditing import ledger_of

    opened = open_request(request)
    project, target = opened.project.with_target(None), opened.target
    families = Selection(FAMILIES)
    rules = [rule for rule in opened.known if families.takes(rule)]
    with progress(len(project.paths)) as step:
        report: Report = engine.check(project, rules, target, options_of(opened, step=step))
    report = opened.completed(report)
    looked_at(opened, request, report)
    ledger = ledger_of(project, report.findings)
    locate = locate_in(project)
    if request.output_format is AuditFormat.JSON:
        write_bytes(
            json_of(report, project, ledger.declarations, ledger.runs, ledger.elsewhere).encode(), request.output
        )
    elif request.output_format is AuditFormat.MARKDOWN:
        write_bytes(markdown_audit(ledger.runs, ledger.elsewhere, report, locate).encode(), request.output)
    else:
        show_lines(show_audit(ledger.runs, ledger.elsewhere, report, locate), request.output, request.color.wanted)
    return exit_code(report, False, opened.named)
