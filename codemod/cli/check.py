"""``precfix check``: findings only, in the format that whoever asks can read."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Report, UsageError
from .options import CheckFormat, Color
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
from .request import Opened, Request, open_request, options_of

if TYPE_CHECKING:
    from ..report.markdown_report import Advice


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What ``check`` does with its findings."""

    output_format: CheckFormat = CheckFormat.TEXT
    output: Path | None = None
    reports: list[str] | None = None
    quiet: bool = False
    verbose: bool = False
    color: Color = Color.AUTO
    statistics: bool = False
    show_fixes: bool = False
    write_baseline: Path | None = None
    add_ignore: bool = False
    reason: str = ""
    allow_dirty: bool = False
    exit_zero: bool = False


def run_check(request: Request, options: CheckOptions) -> int:
    """Check, write the result, and return the exit code; raises UsageError."""
    from .. import engine

    _check_combination(request, options)
    reports = reports_of(options.reports, [each.value for each in CheckFormat])
    check_distinct([options.output, options.write_baseline, *(file for _, file in reports)])
    opened = open_request(request)
    with progress(len(opened.rules)) as step:
        report = engine.check(opened.project, opened.rules, opened.target, options_of(opened, False, None, step))
    report = opened.completed(report)
    for file in (options.output, *(file for _, file in reports)):
        check_writable(file, opened.project, report)
    if options.write_baseline is not None:
        return _write_baseline(options.write_baseline, report, opened)
    if options.add_ignore:
        return _add_ignores(report, opened, options)
    for chosen, file in reports:
        _write(report, opened, replace(options, output_format=CheckFormat(chosen), output=file))
    _write(report, opened, options)
    _tell_of_outdated(opened)
    if options.quiet or options.output is not None or options.output_format is not CheckFormat.TEXT:
        tell_of_unread(report, opened.named)
    code = exit_code(report, bool(report.findings), opened.named)
    return 0 if options.exit_zero and code == 1 else code


def _check_combination(request: Request, options: CheckOptions) -> None:
    if options.reason and not options.add_ignore:
        raise UsageError("--reason goes with --add-ignore")
    if options.add_ignore and options.write_baseline is not None:
        raise UsageError("--add-ignore and --write-baseline exclude each other")
    if request.is_stdin and (options.add_ignore or options.write_baseline is not None):
        raise UsageError("neither --add-ignore nor --write-baseline works on standard input")
    if (options.add_ignore or options.write_baseline is not None) and _has_result(options):
        raise UsageError("--add-ignore and --write-baseline write no report: leave out --report, -o, --output-format")
    if options.write_baseline is not None and (request.baseline is not None or request.diff_base is not None):
        raise UsageError("--write-baseline writes all findings: leave out --baseline and --diff-base")


def _has_result(options: CheckOptions) -> bool:
    return bool(options.reports) or options.output is not None or options.output_format is not CheckFormat.TEXT


def _write(report: Report, opened: Opened, options: CheckOptions) -> None:
    from ..report.fix_diffs import show_findings_with_fixes
    from ..report.statistics import show_statistics
    from ..report.text import show_findings

    chosen = options.output_format
    if chosen is not CheckFormat.TEXT:
        text = for_machines(chosen.value, report, opened.project, _advice(opened))
        write_bytes(text.encode("utf-8", "backslashreplace"), options.output)
        return
    view = view_of(opened.project, options.quiet, options.verbose, opened.settings.root.unsafe_fixes)
    if options.statistics:
        lines = show_statistics(report, view)
    elif options.show_fixes:
        lines = show_findings_with_fixes(report, view, opened.project, options_of(opened).chosen)
    else:
        lines = show_findings(report, view)
    show_lines(lines, options.output, options.color.wanted)


def _advice(opened: Opened) -> Advice:
    from ..report.markdown_report import Advice

    return Advice(unsafe_fixes=opened.settings.root.unsafe_fixes)


def _tell_of_outdated(opened: Opened) -> None:
    baseline, outdated = opened.screen.baseline, opened.screen.outdated
    if baseline is not None and outdated:
        print(
            f"precfix: {outdated} of the findings in {str(baseline.path)!r} no longer occur;"
            " --write-baseline writes it anew",
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


def _add_ignores(report: Report, opened: Opened, options: CheckOptions) -> int:
    from ..applying.apply import apply
    from ..model import FileChange
    from ..report.printable import printable
    from ..screening.ignore_writing import with_ignores

    texts, written, skipped = with_ignores(opened.project, report.findings, options.reason)
    changes = []
    for path, text in sorted(texts.items()):
        document = opened.project.document(path)
        if document is not None:
            changes.append(FileChange(path, document.data, document.encode(text)))
    if changes:
        apply(opened.project.root, changes, allow_dirty=options.allow_dirty)
    for skip in skipped:
        print(f"precfix: {printable(f'{skip.path}: {skip.reason}')}", file=sys.stderr)
    print(f"{len(written)} of {len(report.findings)} findings suppressed in {len(changes)} files")
    return exit_code(report, len(written) < len(report.findings), opened.named)
