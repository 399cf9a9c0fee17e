"""``precfix migrate``: the fixes carried out, or the diff that would."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Report, UsageError
from .options import Color, MigrateFormat
from .output import (
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
from .request import Opened, Request, check_chosen, open_request, options_of, target_line

if TYPE_CHECKING:
    from ..interactive.terminal import Terminal
    from ..report.frame import OutputLine
    from ..report.text import View


@dataclass(frozen=True, slots=True)
class MigrateOptions:
    """What ``migrate`` may do, and how it tells of it."""

    dry_run: bool = False
    unsafe_fixes: bool | None = None
    fix: list[str] | None = None
    patch: Path | None = None
    allow_dirty: bool = False
    interactive: bool = False
    output_format: MigrateFormat | None = None
    output: Path | None = None
    reports: list[str] | None = None
    quiet: bool = False
    verbose: bool = False
    color: Color = Color.AUTO
    statistics: bool = False
    show_fixes: bool = False

    @property
    def preview(self) -> bool:
        """Whether nothing is written to the project."""
        return self.dry_run or self.patch is not None

    @property
    def chosen_format(self) -> MigrateFormat:
        """The format asked for, else the diff of a dry run, else text."""
        shows_diff = self.dry_run and self.patch is None
        return self.output_format or (MigrateFormat.DIFF if shows_diff else MigrateFormat.TEXT)


def run_migrate(request: Request, options: MigrateOptions) -> int:
    """Migrate, write the result, and return the exit code; raises UsageError, and then nothing is written."""
    if request.is_stdin and (options.patch is not None or options.interactive):
        raise UsageError("neither --patch nor --interactive works on standard input")
    reports = reports_of(options.reports, [each.value for each in MigrateFormat])
    check_distinct([options.output, options.patch, *(file for _, file in reports)])
    terminal = _terminal(options) if options.interactive else None
    opened = open_request(request)
    aims = opened.project.profile is not None or opened.project.target is not None
    if not options.quiet and (options.verbose or aims):
        print(f"precfix: {target_line(opened.target)}", file=sys.stderr)
    report = opened.completed(_migrated(opened, options, terminal))
    check_chosen(report, options.fix, opened.known)
    for file in (options.output, options.patch, *(file for _, file in reports)):  # before anything is applied
        check_writable(file, opened.project, report)
    if request.is_stdin:
        return _to_stdout(report, opened, options, reports)
    if not options.preview and report.changes:
        from ..applying.apply import apply

        apply(opened.project.root, report.changes, allow_dirty=options.allow_dirty)
    if options.patch is not None:
        write_bytes(diff_of(report, opened.project), options.patch)
    for chosen, file in reports:
        _write(report, opened, replace(options, output_format=MigrateFormat(chosen), output=file), request)
    _write(report, opened, options, request)
    if options.quiet or options.output is not None or options.chosen_format is not MigrateFormat.TEXT:
        tell_of_unread(report, opened.named)
    left = bool(report.changes) if options.preview else False
    return exit_code(report, left or bool(report.remaining), opened.named)


def _terminal(options: MigrateOptions) -> Terminal:
    from ..interactive.terminal import Terminal

    return Terminal.here(options.color.wanted)


def _migrated(opened: Opened, options: MigrateOptions, terminal: Terminal | None) -> Report:
    from .. import engine

    if terminal is not None:
        from ..interactive.interview import interviewed

        allowed = options_of(opened, options.unsafe_fixes, options.fix)
        asking, interview = interviewed(allowed, terminal)
        report = engine.migrate(opened.project, opened.rules, opened.target, asking)
        interview.end()
        return report
    with progress(len(opened.rules)) as step:
        allowed = options_of(opened, options.unsafe_fixes, options.fix, step)
        return engine.migrate(opened.project, opened.rules, opened.target, allowed)


def _to_stdout(report: Report, opened: Opened, options: MigrateOptions, reports: Sequence[tuple[str, Path]]) -> int:
    """The file from standard input with its fixes (as it came when it cannot be parsed); with a format the report."""
    document = opened.project.document(opened.stdin)
    if document is None:
        reasons = [skip.reason for skip in report.skipped]
        raise UsageError(f"standard input cannot be read as {opened.stdin!r}: {'; '.join(reasons) or 'no text'}")
    request = Request([Path(opened.stdin)])
    only_told = options.preview or options.output_format is not None
    told = replace(options, dry_run=only_told)
    for chosen, file in reports:
        _write(report, opened, replace(told, output_format=MigrateFormat(chosen), output=file), request)
    if only_told:
        _write(report, opened, told, request)
        tell_of_unread(report, opened.named)
    else:
        write_bytes(report.changes[0].after if report.changes else document.data, options.output)
        _tell_of_stdin(report, opened, options)
    left = bool(report.changes) if only_told else False
    return exit_code(report, left or bool(report.remaining), opened.named)


def _tell_of_stdin(report: Report, opened: Opened, options: MigrateOptions) -> None:
    """What was done with the file from standard input, on stderr: a line per fix, and per finding that is left."""
    from ..report.fix_list import show_fix_list
    from ..report.statistics import show_statistics
    from ..report.text import Level, finding_lines, show, trouble_lines

    view = view_of(opened.project, options.quiet, options.verbose, False)
    brief = replace(view, level=Level.QUIET)
    tell_of_unread(report, opened.named)
    for finding in report.remaining:
        show(finding_lines(finding, brief), sys.stderr, color=options.color.wanted)
    if options.quiet:
        lines = trouble_lines(report, view)
    elif options.statistics:
        lines = show_statistics(report, view)
    else:
        lines = show_fix_list(replace(report, skipped=()), view)
    show(lines, sys.stderr, color=options.color.wanted)


def _write(report: Report, opened: Opened, options: MigrateOptions, request: Request) -> None:
    from ..report.text import show

    unsafe = bool(options_of(opened, options.unsafe_fixes).unsafe_fixes)
    view = replace(view_of(opened.project, options.quiet, options.verbose, unsafe), asked=options.interactive)
    chosen = options.chosen_format
    if chosen is MigrateFormat.TEXT:
        show_lines(_lines(report, opened, options, view), options.output, options.color.wanted)
    elif chosen is MigrateFormat.DIFF:
        write_bytes(diff_of(report, opened.project), options.output)
        if options.output_format is not None and options.output is not None:
            return
        show(_lines(report, opened, options, view), sys.stderr, color=options.color.wanted)
    else:
        from ..report.markdown_report import Advice

        command = _command(request, options, unsafe)
        advice = Advice(
            command,
            unsafe,
            written=not options.preview,
            undo=f"precfix undo {_root(opened)}".strip(),
            asked=options.interactive,
        )
        text = for_machines(chosen.value, report, opened.project, advice)
        write_bytes(text.encode("utf-8", "backslashreplace"), options.output)


def _lines(report: Report, opened: Opened, options: MigrateOptions, view: View) -> Iterator[OutputLine]:
    from ..report.applied import show_applied
    from ..report.fix_list import show_fix_list
    from ..report.statistics import show_statistics

    if options.statistics:
        return show_statistics(report, view)
    if options.show_fixes:
        return show_fix_list(report, view, dry_run=options.preview)
    return show_applied(report, view, dry_run=options.preview, root=str(opened.project.root))


def _root(opened: Opened) -> str:
    """The project's root as seen from here, quoted for a shell; empty for the current folder."""
    below = os.path.relpath(opened.project.root)
    return "" if below == "." else shlex.quote(below)


def _command(request: Request, options: MigrateOptions, unsafe: bool) -> str:
    """What to type to carry out these fixes."""
    words = ["precfix", "migrate", *(str(path) for path in request.paths)]
    words += ["--to", request.to] if request.to and request.to != "auto" else []
    words += ["--unsafe-fixes"] if unsafe else []
    words += ["--select", request.select] if request.select else []
    words += ["--ignore", request.ignore] if request.ignore else []
    words += [word for pattern in request.exclude or () for word in ("--exclude", pattern)]
    words += ["--profile", str(request.profile)] if request.profile else ["--probe"] if request.probe else []
    words += ["--baseline", str(request.baseline)] if request.baseline else []
    words += ["--isolated"] if request.isolated else []
    words += [word for item in options.fix or () for word in ("--fix", item)]
    words += ["--diff-base", request.diff_base] if request.diff_base else []
    return shlex.join(words)
