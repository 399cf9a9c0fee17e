"""``precfix check``: findings only, in the format that whoever asks can read."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import UsageError
from ..outcome import Report
from .answering import looked_at
from .commands import CheckRequest
from .observations import tell_of_sight
from .options import CHECK_FORMATS, Format
from .output import (
    check_distinct,
    check_writable,
    exit_code,
    for_machines,
    progress,
    reports_of,
    show_lines,
    tell_of_unread,
    view_of,
    write_bytes,
)
from .request import Opened, open_request, options_of

if TYPE_CHECKING:
    from ..report.markdown_report import Advice


def run_check(request: CheckRequest) -> int:
    """Check, write the result, and return the exit code; raises UsageError."""
    from .. import engine

    _check_combination(request)
    reports = reports_of(request.reports, CHECK_FORMATS)
    check_distinct([request.output, request.write_baseline, *(file for _, file in reports)])
    opened = open_request(request)
    with progress(len(opened.project.paths)) as step:
        allowed = options_of(opened, False, None, step)
        report = engine.check(opened.project, opened.rules, opened.target, allowed)
        if opened.project.target is not None:
            from ..moving.shown_by_check import as_moved

            report = as_moved(opened.project, report, opened.rules, opened.target, allowed, opened.known)
    report = opened.completed(report)
    tell_of_sight(opened.project, quiet=request.quiet, verbose=request.verbose)
    if request.write_baseline is None and not request.add_ignore:
        looked_at(opened, request, report)
    for file in (request.output, *(file for _, file in reports)):
        check_writable(file, opened.project, report)
    if request.write_baseline is not None:
        return _write_baseline(request.write_baseline, report, opened)
    if request.add_ignore:
        return _add_ignores(report, opened, request)
    for chosen, file in reports:
        _write(report, opened, replace(request, output_format=chosen, output=file))
    _write(report, opened, request)
    _tell_of_outdated(opened)
    if request.quiet or request.output is not None or request.output_format is not Format.TEXT:
        tell_of_unread(report, opened.named)
    code = exit_code(report, bool(report.findings), opened.named)
    return 0 if request.exit_zero and code == 1 else code


def _check_combination(request: CheckRequest) -> None:
    if request.reason and not request.add_ignore:
        raise UsageError("--reason requires --add-ignore")
    if request.add_ignore and request.write_baseline is not None:
        raise UsageError("--add-ignore and --write-baseline cannot be combined")
    if request.is_stdin and (request.add_ignore or request.write_baseline is not None):
        raise UsageError("neither --add-ignore nor --write-baseline works on standard input")
    if (request.add_ignore or request.write_baseline is not None) and _has_result(request):
        raise UsageError("--add-ignore and --write-baseline write no report: leave out --report, -o, --output-format")
    some = request.baseline is not None or request.diff_base is not None or request.project is not None
    if request.write_baseline is not None and some:
        raise UsageError("--write-baseline writes all findings: leave out --baseline, --diff-base and --project")


def _has_result(request: CheckRequest) -> bool:
    return bool(request.reports) or request.output is not None or request.output_format is not Format.TEXT


def _write(report: Report, opened: Opened, request: CheckRequest) -> None:
    from ..report.fix_diffs import show_findings_with_fixes
    from ..report.statistics import show_statistics
    from ..report.text import show_findings

    chosen = request.output_format
    if chosen is not Format.TEXT:
        text = for_machines(chosen, report, opened.project, _advice(opened))
        write_bytes(text.encode("utf-8", "backslashreplace"), request.output)
        return
    view = view_of(opened.project, request.quiet, request.verbose, opened.settings.root.unsafe_fixes)
    if request.statistics:
        lines = show_statistics(report, view)
    elif request.show_fixes:
        lines = show_findings_with_fixes(report, view, opened.project, options_of(opened).chosen)
    else:
        lines = show_findings(report, view)
    show_lines(lines, request.output, request.color.wanted)


def _advice(opened: Opened) -> Advice:
    from ..report.markdown_report import Advice

    return Advice(unsafe_fixes=opened.settings.root.unsafe_fixes)


def _tell_of_outdated(opened: Opened) -> None:
    baseline, outdated = opened.screen.baseline, opened.screen.outdated
    if baseline is not None and outdated:
        print(
            f"precfix: {outdated} of the findings in {str(baseline.path)!r} no longer occur;"
            " --write-baseline rewrites it",
            file=sys.stderr,
        )


def _write_baseline(path: Path, report: Report, opened: Opened) -> int:
    from ..applying.replacing import replace_file
    from ..screening.baseline import baseline_text

    if report.failed_rules:
        raise UsageError("a rule failed, so the baseline would be incomplete; see `precfix check`")
    _check_baseline(path, report, opened)
    tell_of_unread(report, opened.named)
    text = baseline_text(path, report.findings, opened.project)
    real = path.parent.resolve() / path.name
    replace_file(real, text.encode(), None, real.with_name(f".{path.name}.new"))
    number = len(report.findings)
    print(f"{number} finding{'s' if number != 1 else ''} written to {str(path)!r}", file=sys.stderr)
    return exit_code(report, False, opened.named)


def _check_baseline(path: Path, report: Report, opened: Opened) -> None:
    """Raise UsageError unless a baseline may be written there: where nothing is, or an earlier one."""
    from ..screening.baseline import read_baseline

    check_writable(path, opened.project, report)
    if path.is_symlink():
        raise UsageError(f"{str(path)!r} cannot be written: it is a link")
    if path.exists():
        read_baseline(path)


def _add_ignores(report: Report, opened: Opened, request: CheckRequest) -> int:
    from ..applying.apply import apply
    from ..outcome import FileChange
    from ..report.printable import printable
    from ..screening.ignore_writing import with_ignores

    texts, written, skipped = with_ignores(opened.project, report.findings, request.reason)
    changes = []
    for path, text in sorted(texts.items()):
        document = opened.project.document(path)
        if document is not None:
            changes.append(FileChange(path, document.data, document.encode(text)))
    if changes:
        apply(opened.project.root, changes, allow_dirty=request.allow_dirty)
    for skip in skipped:
        print(f"precfix: {printable(f'{skip.path}: {skip.reason}')}", file=sys.stderr)
    print(f"{len(written)} of {len(report.findings)} findings suppressed in {len(changes)} files")
    return exit_code(report, len(written) < len(report.findings), opened.named)
