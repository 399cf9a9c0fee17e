"""``precfix migrate``: the fixes carried out, or the diff that would."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import UsageError
from ..outcome import Report
from .answering import looked_at
from .commands import MigrateRequest, words_of
from .observations import tell_of_sight
from .options import MIGRATE_FORMATS, Format
from .output import (
    WrittenReport,
    check_distinct,
    check_writable,
    diff_of,
    exit_code,
    for_machines,
    progress,
    reports_of,
    show_lines,
    tell_of_unread,
    view_of,
    write_bytes,
)
from .request import Opened, check_chosen, open_request, options_of, target_line

DECIDING = (
    "to", "unsafe_fixes", "select", "ignore", "exclude", "profile", "probe", "observed", "baseline",
    "isolated", "fix", "diff_base",
)  # fmt: skip
"""The options on which it depends what is repaired; a report shows them in the command to type."""

if TYPE_CHECKING:
    from ..interactive.terminal import Terminal
    from ..report.frame import OutputLine
    from ..report.text import View
    from ..source.project import Project
    from .proving import Proof, ProvingKey


def run_migrate(request: MigrateRequest) -> int:
    """Migrate, write the result, and return the exit code; raises UsageError, and then nothing is written."""
    if request.is_stdin and (request.patch is not None or request.interactive):
        raise UsageError("neither --patch nor --interactive works on standard input")
    reports = reports_of(request.reports, MIGRATE_FORMATS)
    check_distinct([request.output, request.patch, *(file for _, file in reports)])
    terminal = _terminal(request) if request.interactive else None
    opened = open_request(request)
    _check_proof(request)
    aims = opened.project.profile is not None or opened.project.target is not None
    if not request.quiet and (request.verbose or aims):
        print(f"precfix: {target_line(opened.target)}", file=sys.stderr)
    proof = _proof(opened, request) if request.prove is not None else None
    done = proof.report if proof is not None else _migrated(opened, request, terminal)
    report = opened.completed(done)
    check_chosen(report, request.fix, opened.known)
    tell_of_sight(opened.project, quiet=request.quiet, verbose=request.verbose)
    if request.preview and not request.interactive and proof is None:
        looked_at(opened, request, report)
    for file in (request.output, request.patch, *(file for _, file in reports)):  # before anything is applied
        check_writable(file, opened.project, report)
    if request.is_stdin:
        return _to_stdout(report, opened, request, reports)
    if not request.preview and report.changes:
        from ..applying.apply import apply

        apply(opened.project.root, report.changes, allow_dirty=request.allow_dirty)
    if request.patch is not None:
        write_bytes(diff_of(report, opened.project), request.patch)
    for chosen, file in reports:
        _write(report, opened, replace(request, output_format=chosen, output=file), proof)
    _write(report, opened, request, proof)
    if proof is not None and request.chosen_format is not Format.JSON:
        from .proving import show_proof

        show_proof(proof, to_stdout=request.output is None and request.chosen_format is Format.TEXT)
    if request.quiet or request.output is not None or request.chosen_format is not Format.TEXT:
        tell_of_unread(report, opened.named)
    left = bool(report.changes) if request.preview else False
    still = proof is not None and proof.comparison.still_raises
    still = still or bool(report.remaining) or any(run.is_left for run in report.moves)
    return exit_code(report, left or still, opened.named)


def _check_proof(request: MigrateRequest) -> None:
    if request.prove is not None and (request.is_stdin or request.interactive):
        raise UsageError("--prove works neither on standard input nor with --interactive")
    if request.steps < 1:
        raise UsageError("--steps must be at least 1")


def _proof(opened: Opened, request: MigrateRequest) -> Proof:
    from ..moving.carrying import move
    from .proving import command_of, proof_of, without

    allowed = options_of(opened, request.unsafe_fixes, request.fix)

    def migrating(project: Project, out: frozenset[ProvingKey]) -> Report:
        return move(project, opened.rules, opened.target, replace(allowed, decide=without(out)), opened.known)

    return proof_of(opened.project, command_of(request.prove or ""), migrating, request.steps)


def _terminal(request: MigrateRequest) -> Terminal:
    from ..interactive.terminal import Terminal

    return Terminal.here(request.color.wanted)


def _migrated(opened: Opened, request: MigrateRequest, terminal: Terminal | None) -> Report:
    from ..moving.carrying import move

    if terminal is not None:
        from ..interactive.interview import interviewed

        allowed = options_of(opened, request.unsafe_fixes, request.fix)
        asking, interview = interviewed(allowed, terminal)
        report = move(opened.project, opened.rules, opened.target, asking, opened.known, withdraws=False)
        interview.end()
        return report
    with progress(len(opened.project.paths)) as step:
        allowed = options_of(opened, request.unsafe_fixes, request.fix, step)
        return move(opened.project, opened.rules, opened.target, allowed, opened.known)


def _to_stdout(report: Report, opened: Opened, request: MigrateRequest, reports: Sequence[WrittenReport]) -> int:
    """The file from standard input with its fixes (as it came when it cannot be parsed); with a format the report."""
    document = opened.project.document(opened.stdin)
    if document is None:
        reasons = [skip.reason for skip in report.skipped]
        raise UsageError(f"standard input cannot be read as {opened.stdin!r}: {'; '.join(reasons) or 'no text'}")
    only_told = request.preview or request.output_format is not None
    told = replace(request, paths=[Path(opened.stdin)], dry_run=only_told)
    for chosen, file in reports:
        _write(report, opened, replace(told, output_format=chosen, output=file))
    if only_told:
        _write(report, opened, told)
        tell_of_unread(report, opened.named)
    else:
        write_bytes(report.changes[0].after if report.changes else document.data, request.output)
        _tell_of_stdin(report, opened, request)
    left = bool(report.changes) if only_told else False
    return exit_code(report, left or bool(report.remaining), opened.named)


def _tell_of_stdin(report: Report, opened: Opened, request: MigrateRequest) -> None:
    """What was done with the file from standard input, on stderr: a line per fix, and per finding that is left."""
    from ..report.applied import show_fix_list
    from ..report.statistics import show_statistics
    from ..report.text import Level, finding_lines, show, trouble_lines

    view = view_of(opened.project, request.quiet, request.verbose, False)
    brief = replace(view, level=Level.QUIET)
    tell_of_unread(report, opened.named)
    for finding in report.remaining:
        show(finding_lines(finding, brief), sys.stderr, color=request.color.wanted)
    if request.quiet:
        lines = trouble_lines(report, view)
    elif request.statistics:
        lines = show_statistics(report, view)
    else:
        lines = show_fix_list(replace(report, skipped=()), view)
    show(lines, sys.stderr, color=request.color.wanted)


def _write(report: Report, opened: Opened, request: MigrateRequest, proof: Proof | None = None) -> None:
    from ..report.text import show

    unsafe = bool(options_of(opened, request.unsafe_fixes).unsafe_fixes)
    view = replace(view_of(opened.project, request.quiet, request.verbose, unsafe), asked=request.interactive)
    chosen = request.chosen_format
    if chosen is Format.TEXT:
        show_lines(_lines(report, opened, request, view), request.output, request.color.wanted)
    elif chosen is Format.DIFF:
        write_bytes(diff_of(report, opened.project), request.output)
        if request.output_format is not None and request.output is not None:
            return
        show(_lines(report, opened, request, view), sys.stderr, color=request.color.wanted)
    else:
        from ..report.markdown_report import Advice

        command = shlex.join(["precfix", "migrate", *words_of(replace(request, unsafe_fixes=unsafe), DECIDING)])
        advice = Advice(
            command,
            unsafe,
            written=not request.preview,
            undo=f"precfix undo {_root(opened)}".strip(),
            asked=request.interactive,
        )
        text = for_machines(chosen, report, opened.project, advice)
        if proof is not None and chosen is Format.JSON:
            from .proving import with_proof

            text = with_proof(text, proof)
        write_bytes(text.encode("utf-8", "backslashreplace"), request.output)


def _lines(report: Report, opened: Opened, request: MigrateRequest, view: View) -> Iterator[OutputLine]:
    from ..report.applied import show_applied, show_fix_list
    from ..report.statistics import show_statistics

    if request.statistics:
        return show_statistics(report, view)
    if request.show_fixes:
        return show_fix_list(report, view, dry_run=request.preview)
    return show_applied(report, view, dry_run=request.preview, root=str(opened.project.root))


def _root(opened: Opened) -> str:
    """The project's root as seen from here, quoted for a shell; empty for the current folder."""
    below = os.path.relpath(opened.project.root)
    return "" if below == "." else shlex.quote(below)
