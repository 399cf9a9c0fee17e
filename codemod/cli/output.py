"""How a report leaves the program: to a terminal, a pipe or a file, with the right exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Fix, UsageError
from ..outcome import Report
from .answering import wrote
from .options import Format

if TYPE_CHECKING:
    from ..report import EditsOf, TextEdit
    from ..report.frame import OutputLine
    from ..report.markdown_report import Advice
    from ..report.places import ReportPlaces
    from ..report.text import View
    from ..source.project import Project

QUIET_SECONDS = 1.0
"""How long a run may take before it shows what it does."""
FOUND, USAGE, INTERNAL, INTERRUPTED = 1, 2, 3, 130
"""Exit codes: findings or a diff; bad usage or input; precfix itself failed; Ctrl-C."""


def exit_code(report: Report, found: bool, named: Iterable[str] = ()) -> int:
    """3 when a rule failed, 2 when a file that was named could not be read, 1 when something was found, else 0."""
    if report.failed_rules:
        return INTERNAL
    asked_for = set(named)
    if any(skip.path in asked_for for skip in report.skipped):
        return USAGE
    return FOUND if found else 0


def tell_of_unread(report: Report, named: Iterable[str]) -> None:
    """Say on stderr why files that were named have not been read: for results that do not tell it themselves."""
    from ..report.printable import printable

    asked_for = set(named)
    for skip in report.skipped:
        if skip.path in asked_for:
            print(f"precfix: {printable(f'{skip.path}: {skip.reason}')}", file=sys.stderr)


def view_of(project: Project, quiet: bool, verbose: bool, unsafe_fixes: bool) -> View:
    """What the reader asked to see."""
    from ..report.text import Level, View

    level = Level.QUIET if quiet else Level.VERBOSE if verbose else Level.NORMAL
    return View(project.document, level, unsafe_fixes)


def diff_of(report: Report, project: Project) -> bytes:
    """The patch, as bytes that ``git apply`` takes anywhere in the work tree, or in a project that is in none."""
    from ..report.diff import unified_diff

    return unified_diff(report.changes, prefix_of(project))


WrittenReport = tuple[Format, Path]
"""A format and the file that gets the result in it."""


def reports_of(items: Sequence[str] | None, known: Sequence[Format]) -> tuple[WrittenReport, ...]:
    """``--report FORMAT=FILE`` as formats and files; raises UsageError."""
    formats = {each.value: each for each in known}
    found = []
    for item in items or ():
        chosen, equals, name = item.partition("=")
        if not equals or not name:
            raise UsageError(f"--report {item!r}: write FORMAT=FILE, for example sarif=precfix.sarif")
        if chosen not in formats:
            raise UsageError(f"--report {item!r}: the format must be one of {', '.join(formats)}")
        found.append((formats[chosen], Path(name)))
    return tuple(found)


def for_machines(chosen: Format, report: Report, project: Project, advice: Advice | None = None) -> str:
    """The report in one of the formats that other programs and services read.

    Paths in ``json`` and ``json-lines`` are relative to the project; services know files by their place in the
    repository, so in the other formats they are relative to the top of the git work tree that holds the project.
    """
    from ..report import github, gitlab, json_report, junit, markdown_report, sarif

    places = places_in(project)
    if chosen is Format.MARKDOWN:
        return markdown_report.to_markdown(report, places, advice)
    writers: dict[Format, Callable[[Report, ReportPlaces], str]] = {
        Format.JSON: json_report.to_json,
        Format.JSON_LINES: json_report.to_json_lines,
        Format.SARIF: sarif.to_sarif,
        Format.GITHUB: github.to_github,
        Format.GITLAB: gitlab.to_gitlab,
        Format.JUNIT: junit.to_junit,
    }
    return writers[chosen](report, places)


def places_in(project: Project) -> ReportPlaces:
    """Where things stand as seen from the top of the repository; from the project itself where it is in none."""
    from ..report.places import ReportPlaces

    return ReportPlaces(project.document, edits_in(project), prefix_of(project))


def prefix_of(project: Project) -> str:
    """The way from the top of the git work tree to the project: empty, or ending in ``/``."""
    from ..applying.worktree import repository_of

    top = repository_of(project.root / "x")
    below = "." if top is None else project.root.relative_to(top).as_posix()
    return "" if below == "." else below + "/"


def edits_in(project: Project) -> EditsOf:
    """What a fix would change in the texts of a project if it were the only one."""
    from ..engine import texts_with
    from ..report.diff import line_edits

    def edits_of(fix: Fix) -> tuple[TextEdit, ...]:
        edits: list[TextEdit] = []
        for path, text in sorted(texts_with(project, [fix]).items()):
            document = project.document(path)
            edits += line_edits(path, document.text, text) if document is not None else ()
        return tuple(edits)

    return edits_of


def show_lines(lines: Iterator[OutputLine], output: Path | None, color: bool | None) -> None:
    """Write lines for people to ``output`` as plain text, or to stdout, in color where wanted."""
    from ..report.text import plain, show

    if output is not None:
        write_bytes(plain(lines).encode(), output)
    else:
        show(lines, sys.stdout, color=color)


def show_markdown(text: str, color: bool | None) -> None:
    """Write Markdown: rendered on a terminal, as it is in a pipe."""
    if color is False or (color is None and not sys.stdout.isatty()):
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(force_terminal=color).print(Markdown(text))


def write_bytes(data: bytes, output: Path | None) -> None:
    if output is not None:
        output.write_bytes(data)
        wrote(output, data)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def progress(files: int) -> Iterator[Callable[[str], None] | None]:
    """Shows on stderr what is going on, from the second second on; nothing when stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    begun = time.monotonic()
    with ExitStack() as shown:
        bars: list[Callable[[str], None]] = []

        def step(name: str) -> None:
            if not bars and time.monotonic() - begun > QUIET_SECONDS:
                bars.append(shown.enter_context(_bar(files)))
            for show in bars:
                show(name)

        yield step


@contextmanager
def _bar(files: int) -> Iterator[Callable[[str], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    counted = f"precfix: {files:,} file{'s' if files != 1 else ''}"
    columns = (TextColumn(counted), BarColumn(), TextColumn("{task.description}", markup=False))
    # No thread of its own: a process with threads cannot be forked safely. Nor is it a part of what is kept.
    with Progress(*columns, console=Console(file=sys.__stderr__), transient=True, auto_refresh=False) as bar:
        task = bar.add_task("reading", total=None)
        yield lambda name: bar.update(task, description=name, advance=1, refresh=True)


def check_distinct(files: Iterable[Path | None]) -> None:
    """Raise UsageError when two results would be written to one file, or to a file called ``-``."""
    seen: set[Path] = set()
    for file in files:
        if file is None:
            continue
        if str(file) == "-":
            raise UsageError("'-' is not supported here; omit the option to write to standard output")
        real = file.resolve()
        if real in seen:
            raise UsageError(f"two results would be written to {str(file)!r}")
        seen.add(real)


def check_folder(output: Path | None) -> None:
    """Raise UsageError when a result cannot be written to a file there; asked before anything takes its time."""
    if output is not None and (output.is_dir() or not output.parent.is_dir()):
        reason = "it is a folder" if output.is_dir() else f"there is no folder {str(output.parent)!r}"
        raise UsageError(f"{str(output)!r} cannot be written: {reason}")


def check_writable(output: Path | None, project: Project, report: Report) -> None:
    """Raise UsageError when a result cannot go to ``output``, or would overwrite a source file of the project.

    JSON and text files are only refused when the report is about them: they may well be an earlier result.
    """
    import os

    from ..source.documents import FileKind, kind_of

    if output is None:
        return
    check_folder(output)
    folder = output.parent
    if not os.access(output if output.exists() else folder, os.W_OK):
        raise UsageError(f"{str(output)!r} cannot be written: permission denied")
    leads_out = output.is_symlink() and not output.resolve().is_relative_to(project.root)
    if leads_out and folder.resolve().is_relative_to(project.root):  # the project's own link, not /dev/stdout
        raise UsageError(f"{str(output)!r} cannot be written: it is a link that leads out of the project")
    path = os.path.relpath(output.resolve(), project.root).replace(os.sep, "/")
    kind = kind_of(path) if path in project.paths else None
    about = {change.path for change in report.changes} | {finding.path for finding in report.findings}
    if path in about or kind not in (None, FileKind.JSON, FileKind.TEXT):
        raise UsageError(f"{str(output)!r} is a file of the project; write the result elsewhere")
