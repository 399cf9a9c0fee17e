"""The ledger for people: one table per run, as text or Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..model import Finding
from ..outcome import Report, RunEntry, RunReport
from .frame import OutputLine
from .markdown_text import code, escaped
from .move_table import cells_of, move_lines
from .places import ReportPlaces
from .printable import printable
from .tally import counted, what_was_read

NO_RUN = "no training run that was found uses this"
COLUMNS = ("role", "value", "where", "said by", "")
WHERE = 2
WIDEST = (14, 34, 44, 44)
"""Columns are as wide as their longest cell, up to these many characters; the last one is free."""
STYLES = {"wins": "good", "overridden": "unsafe", "contradicts": "bad"}
TITLES = {"torch": "code"}


def show_audit(
    runs: Sequence[RunReport], elsewhere: Sequence[RunReport], report: Report, places: ReportPlaces
) -> Iterator[OutputLine]:
    """Lines of the tables, then what contradicts, then what was read."""
    findings, target = report.findings, report.target
    for run in runs:
        yield (printable(run.title), "place"), (f"  {places.at(run.path, run.row)}", "note")
        yield (("  runs ", "text"), (run.shown, "rule" if run.regime == "unknown" else "good"), (_roles(run), "note"))
        yield from _table([_cells(entry, places) for entry in run.entries])
        yield (("", "text"),)
    for file in elsewhere:
        yield (printable(file.path), "place"), (f"  {NO_RUN}", "note")
        yield from _table([_cells(entry, places) for entry in file.entries])
        yield (("", "text"),)
    for finding in findings:
        place = places.shown(finding.path, finding.span)
        yield (finding.code, "rule"), (f" {place} ", "place"), (printable(finding.message), "text")
    yield ((_summary((*runs, *elsewhere), findings), "place"),)
    yield from move_lines(report.moves, target.regime, places.at, planned=True)
    yield ((printable(target.said), "note"),)
    for each in report.skipped:
        yield ((printable(f"  skipped: {each.path}: {each.reason}"), "note"),)
    yield ((what_was_read(report), "note"),)


def markdown_audit(
    runs: Sequence[RunReport], elsewhere: Sequence[RunReport], report: Report, places: ReportPlaces
) -> str:
    """The same as Markdown."""
    findings, target = report.findings, report.target
    lines = [
        "# Precision of this project",
        "",
        f"{_summary((*runs, *elsewhere), findings)} {escaped(target.said)}.",
        "",
    ]
    for run in runs:
        lines += [
            f"## {escaped(run.title)}",
            "",
            f"{code(places.at(run.path, run.row))} runs **{run.shown}**{_roles(run)}",
            "",
        ]
        lines += _rows(run, places)
    for file in elsewhere:
        lines += [f"## {escaped(file.path)}", "", f"{NO_RUN.capitalize()}.", "", *_rows(file, places)]
    if findings:
        lines += ["## Contradictions", ""]
        for finding in findings:
            where = code(places.shown(finding.path, finding.span))
            lines.append(f"- **{finding.code}** {where} {escaped(finding.message)}")
        lines.append("")
    if report.moves:
        lines += [f"## On the way to {target.regime}", "", "| where | run | before | after | | why |"]
        lines += ["| --- | --- | --- | --- | --- | --- |"]
        lines += ["| " + " | ".join(map(escaped, cells_of(each, places.at))) + " |" for each in report.moves]
        lines.append("")
    lines += [escaped(what_was_read(report)), ""]
    return "\n".join(printable(line) for line in lines)


def _rows(run: RunReport, places: ReportPlaces) -> list[str]:
    lines = ["| role | value | where | said by | |", "| --- | --- | --- | --- | --- |"]
    lines += ["| " + " | ".join(escaped(cell) for cell in _cells(entry, places)) + " |" for entry in run.entries]
    return [*lines, ""]


def _cells(entry: RunEntry, places: ReportPlaces) -> tuple[str, ...]:
    item = entry.declaration
    where = places.shown(item.path, item.span)
    value = f"{item.value} ({item.condition})" if item.condition else item.value
    status = ", ".join(part for part in (entry.status, entry.note) if part and entry.status != "overridden")
    if entry.status == "overridden":
        status = f"overridden {entry.note}".strip()
    said = f"{item.key} ({TITLES.get(item.framework, item.framework)})"
    return tuple(printable(text) for text in (item.role, value, where, said, status))


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[OutputLine]:
    if not rows:
        return
    table = [COLUMNS, *rows]
    widths = [min(most, max(len(row[at]) for row in table)) for at, most in enumerate(WIDEST)]
    for number, row in enumerate(table):
        cells = "  ".join(_fitted(row[at], width, at) for at, width in enumerate(widths))
        style = "note" if number == 0 else "text"
        word = row[-1].partition(" ")[0]
        yield (f"  {cells}  " if row[-1] else f"  {cells}".rstrip(), style), (row[-1], STYLES.get(word, "text"))


def _fitted(text: str, width: int, column: int) -> str:
    if len(text) <= width:
        return text.ljust(width)
    # Of a place the end is what tells: the file's name and the row.
    return f"\u2026{text[1 - width :]}" if column == WHERE else f"{text[: width - 1]}\u2026"


def _roles(run: RunReport) -> str:
    said = [f"{role} {value}" for role, value in run.effective]
    return f": {', '.join(said)}" if said else ""


def _summary(runs: Sequence[RunReport], findings: Sequence[Finding]) -> str:
    places = {(entry.declaration.path, entry.declaration.span) for run in runs for entry in run.entries}
    files = {path for path, _ in places}
    said = f"{counted(len(places), 'declaration')} in {counted(len(files), 'file')}"
    return f"{said}, {counted(len(findings), 'contradiction')}."
