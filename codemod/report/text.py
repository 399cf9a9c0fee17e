"""The report for people. Lines are built as (text, style) segments, so that color never passes through markup:
``Optional[int]`` and ``[/foo]`` stay as they are. Everything that comes from the project is made printable first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TextIO

from ..model import Applicability, Finding, Fix
from ..outcome import Report, Skipped
from . import SourceOf
from .frame import OutputLine, frame
from .outcomes import silenced_by
from .places import ReportPlaces
from .printable import printable
from .tally import counted, in_order, regime_told, silenced_counts, tally, what_was_read

STYLES = {
    "place": "bold",
    "code": "",
    "rule": "bold red",
    "gutter": "blue",
    "caret": "bold red",
    "note": "dim",
    "safe": "green",
    "unsafe": "yellow",
    "display-only": "cyan",
    "good": "bold green",
    "bad": "bold red",
    "text": "",
}
MOVE = "PF001"
"""The rule whose fixes are held to what their run then computes in."""
SHOWN_SKIPPED = 10
"""How many skipped files are listed without ``-v``."""


class Level(IntEnum):
    """How much is written: ``-q``, nothing, ``-v``."""

    QUIET = -1
    """One line per finding, and what failed."""
    NORMAL = 0
    VERBOSE = 1
    """Also every skipped file, and where the target comes from."""


@dataclass(frozen=True, slots=True)
class View:
    """What the reader asked for, and where source lines come from."""

    source_of: SourceOf
    level: Level = Level.NORMAL
    unsafe_fixes: bool = False
    """Whether ``--unsafe-fixes`` was given: decides what is said about unsafe fixes."""
    asked: bool = False
    """Whether somebody was asked about each fix (``--interactive``), so that a finding may stay by choice."""


def show(lines: Iterable[OutputLine], stream: TextIO, *, color: bool | None = None) -> None:
    """Write lines to ``stream``: through rich on a terminal (or when ``color`` is True), else as plain text.

    Lines are never wrapped. What the stream's encoding cannot hold is written as escapes. ``NO_COLOR`` is obeyed
    unless ``color`` is given.
    """
    wanted = stream.isatty() and not os.environ.get("NO_COLOR") if color is None else color
    if not wanted:
        for line in lines:
            stream.write(_encodable("".join(text for text, _ in line), stream) + "\n")
        return
    from rich.console import Console  # slow to import, and a pipe does not need it
    from rich.text import Text

    console = Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False, no_color=False)
    for line in lines:
        text = Text.assemble(*((_encodable(part, stream), STYLES[style]) for part, style in line))
        console.print(text, soft_wrap=True)


def _encodable(text: str, stream: TextIO) -> str:
    if text.isascii():
        return text
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def plain(lines: Iterable[OutputLine]) -> str:
    """Lines as one string without color, each with its newline."""
    return "".join("".join(text for text, _ in line) + "\n" for line in lines)


def show_findings(report: Report, view: View) -> Iterator[OutputLine]:
    """The lines of ``check``: every finding with its code, evidence and fixes; what was skipped; a summary."""
    for finding in in_order(report.findings):
        yield from finding_lines(finding, view)
    yield from closing_lines(report, view)


def closing_lines(report: Report, view: View) -> Iterator[OutputLine]:
    """What stands below the findings: what was skipped, a summary."""
    yield from trouble_lines(report, view)
    if view.level > Level.QUIET:
        yield from _target(report, view)
        yield _summary(report, view)
        yield from reading_lines(report, view)


def reading_lines(report: Report, view: View) -> Iterator[OutputLine]:
    """How many files were read, skipped and left out, and why; nothing where the summary has said all of it."""
    if view.level == Level.VERBOSE:
        for each in report.left_out:
            yield ((printable(f"  left out: {each.path} ({each.reason})"), "note"),)
    if report.findings or report.left_out:
        yield ((what_was_read(report, "; -v lists them" if view.level < Level.VERBOSE else ""), "note"),)


def finding_lines(finding: Finding, view: View, *, left: bool = False) -> Iterator[OutputLine]:
    """One finding: its place and message, and unless quiet the code frame, the evidence and the fixes.

    ``left`` says that fixes have been carried out and this finding stayed, so that it needs a reason.
    """
    yield heading(finding, view.source_of)
    if view.level == Level.QUIET:
        return
    yield from reason_lines(finding, view.source_of)
    yield from _fix_lines(finding, view, left)
    yield ()


def heading(finding: Finding, source_of: SourceOf) -> OutputLine:
    """Where a finding is, its code and what it says."""
    at = ReportPlaces(source_of).start(finding.path, finding.span)
    rule = printable(f" {finding.code} {finding.name} ")
    return (at, "place"), (rule, "rule"), (printable(finding.message), "text")


def reason_lines(finding: Finding, source_of: SourceOf) -> Iterator[OutputLine]:
    """The code frame, and one line per piece of evidence."""
    source = source_of(finding.path)
    if source is not None:
        yield from frame(source, finding.span)
    for each in finding.evidence:
        where = ReportPlaces(source_of).shown(each.path, each.span)
        yield ("  = because: ", "note"), (f"{where} {printable(each.message)}", "text")


def _fix_lines(finding: Finding, view: View, left: bool) -> Iterator[OutputLine]:
    chosen = _usable(finding.fixes, view.unsafe_fixes)
    for fix in finding.fixes:
        yield _fix_line("fix" if fix is chosen or chosen is None else "or", fix)
    if chosen is None or left:
        yield ("  = not fixed: ", "note"), (why_left(finding, view.unsafe_fixes, view.asked), "text")


def _fix_line(word: str, fix: Fix) -> OutputLine:
    """``= fix [safe] drop: what it does``."""
    level = fix.applicability.value
    return (
        (f"  = {word} ", "note"),
        (f"[{level}]", level),
        (f" {printable(fix.name)}: {printable(fix.message)}", "text"),
    )


def _usable(fixes: Sequence[Fix], unsafe_fixes: bool) -> Fix | None:
    allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe_fixes else {Applicability.SAFE}
    return next((fix for fix in fixes if fix.applicability in allowed), None)


def why_left(finding: Finding, unsafe_fixes: bool, asked: bool = False) -> str:
    """Why a finding stays though fixes were to be carried out, ``unsafe_fixes`` and ``asked`` telling which."""
    fixes = finding.fixes
    if asked and _usable(fixes, True) is not None:
        return "the fix was not accepted, or it could not be carried out (then see Skipped)"
    if _usable(fixes, unsafe_fixes) is not None and finding.code == MOVE:
        return "withdrawn, as a run would not arrive (see the table of runs)"
    if _usable(fixes, unsafe_fixes) is not None:
        return "refused (then see Skipped), left by a move to another precision, or still found after it"
    if not fixes:
        return "there is no automatic repair"
    if any(fix.applicability is Applicability.UNSAFE for fix in fixes):
        return "needs --unsafe-fixes"
    return "display-only repairs are never written; make the change by hand"


def trouble_lines(report: Report, view: View) -> Iterator[OutputLine]:
    """Skipped files (not when quiet) and failed rules (always)."""
    skipped = sorted(report.skipped)
    if skipped and view.level > Level.QUIET:
        shown = skipped if view.level == Level.VERBOSE else skipped[:SHOWN_SKIPPED]
        yield ((f"Skipped ({len(skipped)}):", "place"),)
        yield from map(_trouble, shown)
        if len(shown) < len(skipped):
            yield ((f"  ... and {len(skipped) - len(shown)} more (-v lists them all)", "note"),)
        yield ()
    if report.silenced and view.level == Level.VERBOSE:
        yield ((f"Silenced ({len(report.silenced)}):", "place"),)
        for each in report.silenced:
            finding = each.finding
            at = ReportPlaces(view.source_of).start(finding.path, finding.span)
            yield (("  ", "text"), (at, "place"), (printable(f" {finding.code} {silenced_by(each)}"), "text"))
        yield ()
    if report.failed_rules:
        yield (("Rules that failed (please report this):", "bad"),)
        yield from map(_trouble, report.failed_rules)
        yield ()


def _trouble(each: Skipped) -> OutputLine:
    return ((f"  {printable(each.path)}: {printable(each.reason)}", "text"),)


def _target(report: Report, view: View) -> Iterator[OutputLine]:
    if view.level == Level.VERBOSE:
        unknown = report.target.regime == "unknown"
        source = "" if unknown else f" ({report.target.source})"
        yield ((printable(f"Target: {regime_told(report.target)}{source}"), "note"),)


def _summary(report: Report, view: View) -> OutputLine:
    numbers = tally(report)
    if not numbers.findings:
        return ((f"No precision mistakes found in {counted(report.files_seen, 'file')}{left_out(report)}.", "good"),)
    found = f"{counted(numbers.findings, 'finding')} in {counted(numbers.files, 'file')}; {numbers.fixable} fixable"
    unsafe = f" ({numbers.fixable_unsafe} with --unsafe-fixes)"
    silent = f"; {silenced_counts(report)}" if report.silenced else ""
    return ((found + (unsafe if numbers.fixable_unsafe and not view.unsafe_fixes else "") + silent, "bad"),)


def left_out(report: Report) -> str:
    """`` (1 file skipped, 2 findings silenced (comment 2))``: why a report may be empty; empty when for no reason."""
    parts = [f"{counted(len(report.skipped), 'file')} skipped"] if report.skipped else []
    parts += [silenced_counts(report)] if report.silenced else []
    return f" ({', '.join(parts)})" if parts else ""
