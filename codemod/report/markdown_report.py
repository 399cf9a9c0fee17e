"""The report as the summary of a pull request, in GitHub's Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..model import Applicability, Finding, Fix
from ..outcome import Report
from .diff import line_counts, unified_diff
from .markdown_text import clipped, code, escaped, fenced, link
from .places import ReportPlaces
from .printable import printable
from .tally import counted, in_order, regime_told, settled, silenced_counts, tally
from .text import why_left

LIMIT = 65_000
"""GitHub takes comments of up to 65,536 characters."""
MOST_PLACES = 10
"""Places that are listed for one fix in one file, and pieces of evidence for one finding."""
MOST_RULES = 40
"""Rows of the table of rules."""
LONGEST_LINE = 500
_MEANING = {
    Applicability.SAFE: "same numerics, or it removes a certain crash",
    Applicability.UNSAFE: "**numerics, memory or speed may change**",
    Applicability.DISPLAY_ONLY: "to be changed by hand",
}


@dataclass(frozen=True, slots=True)
class Advice:
    """What the reader is told to type."""

    apply: str = "precfix migrate ."
    """The command that carries out these fixes, quoted for a shell; for ``check`` the one that would repair."""
    unsafe_fixes: bool = False
    """Whether it holds ``--unsafe-fixes``."""
    written: bool = False
    """Whether the changes have been written already, so that there is nothing to apply and something to undo."""
    undo: str = "precfix undo"
    asked: bool = False
    """Whether somebody was asked about each fix."""


def to_markdown(report: Report, places: ReportPlaces, advice: Advice | None = None, *, limit: int = LIMIT) -> str:
    """At most ``limit`` characters (sensible from 4,000 on) of Markdown, UTF-8 when written to a file.

    ``migrate``: numbers and target; by file each fix with what it changes in behavior, its findings and the evidence;
    findings that stay, and why; skipped files and failed rules; commands; the diff, folded. ``check``: the same
    without changes, each finding with the fixes there are. What does not fit is left out, and its number is told.
    Text of the project is shown as it is: it holds no markup, links, mentions or HTML. Findings are placed in the files
    as they were read; those that stay after ``migrate``, in the changed files.
    """
    advice = advice or Advice()
    urls = {rule.code: rule.url for rule in report.rules}
    head = "\n\n".join(part for part in (_head(report, advice), _by_rule(report, urls)) if part)
    tail = _commands(report, advice)
    room = limit - len(head) - len(tail) - 200
    fixes = _filled("", [*_fixes(report, urls, places)], room // 2, "change")
    title = "### Left as it is" if report.changes else "### Findings"
    left = _filled(title, [*_left(report, urls, places, advice)], (room - len(fixes)) // 2, "finding")
    trouble = _filled(
        "### Skipped or failed", [*_trouble(report, places)], (room - len(fixes) - len(left)) // 3, "entry"
    )
    diff = _diff(report, places.prefix, room - len(fixes) - len(left) - len(trouble))
    return "\n\n".join(part for part in (head, fixes, left, trouble, tail, diff) if part) + "\n"


def _filled(title: str, blocks: Sequence[str], room: int, noun: str) -> str:
    """As many blocks as there is room for, below the title, and how many there are more."""
    kept: list[str] = []
    room -= len(title) + 100
    for block in blocks:
        if len(block) + 2 <= room:
            room -= len(block) + 2
            kept.append(block)
    if len(kept) < len(blocks):
        missing = len(blocks) - len(kept)
        many = counted(missing, noun)
        kept.append(f"*{many}{' more' if kept else ''} left out: the summary would be too long.*")
    return "\n\n".join([title, *kept] if title and kept else kept)


def _head(report: Report, advice: Advice) -> str:
    lines = [f"## precfix: {_numbers(report)}", "", f"Target: **{escaped(regime_told(report.target))}**."]
    unsafe = sum(fix.applicability is Applicability.UNSAFE for _, fix in report.applied)
    if report.changes:
        lines.append("The changes have been written." if advice.written else "Nothing has been written yet.")
    if unsafe:
        lines.append(f"{counted(unsafe, 'change')} may alter numerics, memory or speed; marked below.")
    if report.silenced:
        lines.append(f"{silenced_counts(report)}.")
    return "\n".join(lines)


def _by_rule(report: Report, urls: dict[str, str]) -> str:
    """A table of the rules, when there are several: how often each found something, and what is left of it."""
    found = Counter(finding.code for finding in report.findings)
    left = Counter(finding.code for finding in _still_there(report))
    names = {finding.code: finding.name for finding in (*report.findings, *report.remaining)}
    if len(names) < 2:
        return ""
    rows = ["| rule | found | left |", "|---|---:|---:|"]
    ordered = sorted(names, key=lambda code: (-found[code], code))
    for code_ in ordered[:MOST_RULES]:
        rows.append(f"| {escaped(code_)} {link(names[code_], urls.get(code_, ''))} | {found[code_]} | {left[code_]} |")
    if len(ordered) > MOST_RULES:
        rows.append(f"| *{len(ordered) - MOST_RULES} more rules* | | |")
    return "\n".join(rows)


def _numbers(report: Report) -> str:
    left = len(report.remaining) if report.changes else len(report.findings)
    if report.changes:
        fixes = counted(len(report.applied), "fix")
        return f"{fixes} in {counted(len(report.changes), 'file')}, {counted(left, 'finding')} left"
    if not left:
        nothing = f"no precision mistakes found in {counted(report.files_seen, 'file')}"
        return f"{nothing}, {counted(len(report.failed_rules), 'rule')} failed" if report.failed_rules else nothing
    numbers = tally(report)
    return f"{counted(left, 'finding')} in {counted(numbers.files, 'file')}, {numbers.fixable} fixable"


def _fixes(report: Report, urls: dict[str, str], places: ReportPlaces) -> Iterator[str]:
    """One block per fix and file; the first of a file begins with its name."""
    counts = {change.path: line_counts(change) for change in report.changes}
    groups: dict[tuple[str, str, Fix], list[tuple[Finding, Fix]]] = {}
    for finding, fix in sorted(settled(report), key=lambda pair: (pair[0].path, pair[0].code, pair[0].span)):
        groups.setdefault((finding.path, finding.code, replace(fix, edits=())), []).append((finding, fix))
    path_before = None
    for (path, _, fix), pairs in groups.items():
        changed = " +{} -{}".format(*counts[path]) if path in counts else ""
        heading = "" if path == path_before else f"### {code(places.prefix + path)}{changed}\n\n"
        path_before = path
        elsewhere = sorted({edit.path for _, each in pairs for edit in each.edits} - {path})
        yield heading + _fix(fix, [finding for finding, _ in pairs], elsewhere, urls, places)


def _fix(
    fix: Fix, findings: Sequence[Finding], elsewhere: Sequence[str], urls: dict[str, str], places: ReportPlaces
) -> str:
    first = findings[0]
    lines = [
        f"**{escaped(first.code)}** {link(first.name, urls.get(first.code, ''))}, fix {code(fix.name)} "
        f"[{fix.applicability.value}: {_MEANING[fix.applicability]}]",
        "",
        f"*What changes:* {escaped(fix.message)}",
        "",
    ]
    for finding in findings[:MOST_PLACES]:
        lines.append(f"- {code(places.shown(finding.path, finding.span))} {escaped(finding.message)}")
        lines += _evidence(finding, places)
    lines += _more(len(findings) - MOST_PLACES, "place")
    if elsewhere:
        shown = ", ".join(code(places.prefix + path) for path in elsewhere[:MOST_PLACES])
        lines += [f"- also changes {shown}", *_more(len(elsewhere) - MOST_PLACES, "file")]
    return "\n".join(lines)


def _evidence(finding: Finding, places: ReportPlaces) -> list[str]:
    """Why precfix believes it, as a list below the finding's own."""
    lines = [
        f"  - because {code(places.shown(each.path, each.span))} {escaped(each.message)}"
        for each in finding.evidence[:MOST_PLACES]
    ]
    return lines + [f"  {line}" for line in _more(len(finding.evidence) - MOST_PLACES, "reason")]


def _more(number: int, noun: str) -> list[str]:
    return [f"- and {counted(number, f'more {noun}')}"] if number > 0 else []


def _left(report: Report, urls: dict[str, str], places: ReportPlaces, advice: Advice) -> Iterator[str]:
    findings = report.remaining if report.changes else report.findings
    for finding in in_order(findings):
        rule = f"**{escaped(finding.code)}** {link(finding.name, urls.get(finding.code, ''))}"
        where = code(places.shown(finding.path, finding.span))
        lines = [f"- {where} {rule}: {escaped(finding.message)}", *_evidence(finding, places)]
        lines += [
            f"  - fix {code(fix.name)} [{fix.applicability.value}: {_MEANING[fix.applicability]}]: "
            f"{escaped(fix.message)}"
            for fix in finding.fixes[:MOST_PLACES]
        ]
        if report.changes or not finding.fixes:
            lines.append(f"  - not fixed: {escaped(why_left(finding, advice.unsafe_fixes, advice.asked))}")
        yield "\n".join(lines)


def _trouble(report: Report, places: ReportPlaces) -> Iterator[str]:
    for each in sorted(report.failed_rules):
        yield f"- rule {escaped(each.path)} failed (please report this): {escaped(each.reason)}"
    for each in sorted(report.skipped):
        yield f"- {code(places.prefix + each.path)}: {escaped(each.reason)}"


def _commands(report: Report, advice: Advice) -> str:
    if not report.findings and not report.changes:
        return ""
    lines = ["### What to type", ""]
    if commands := [*_to_type(report, advice)]:
        lines += [fenced("\n".join(commands), "sh"), ""]
    silence = "To suppress a finding, write a comment on its line:"
    if left := sorted({finding.code for finding in _still_there(report)}):
        lines.append(f"{silence} {code(f'# precfix: ignore[{left[0]}] reason')}")
    return "\n".join(lines).rstrip() if len(lines) > 2 else ""


def _to_type(report: Report, advice: Advice) -> Iterator[str]:
    levels = {fix.applicability for finding in _still_there(report) for fix in finding.fixes}
    apply = printable(clipped(advice.apply))
    if advice.written:
        yield f"{printable(clipped(advice.undo))}  # takes the changes back"
    elif report.changes or Applicability.SAFE in levels or advice.unsafe_fixes:
        yield f"{apply}  # {'writes these changes' if report.changes else 'writes the fixes'}"
    if Applicability.UNSAFE in levels and not advice.unsafe_fixes:
        yield f"{apply} --unsafe-fixes  # also fixes that may alter numerics, memory or speed"


def _still_there(report: Report) -> Iterable[Finding]:
    return report.remaining if report.changes else report.findings


def _diff(report: Report, prefix: str, room: int) -> str:
    if not report.changes:
        return ""
    changes = sorted(report.changes, key=lambda change: change.path)
    text = unified_diff(changes, prefix).decode("utf-8", "replace").removesuffix("\n")
    lines = [_diff_line(line) for line in text.split("\n")]
    kept = 0
    room -= 400 + 2 * LONGEST_LINE  # the fence may be as long as a line
    while kept < len(lines) and room > len(lines[kept]):
        room -= len(lines[kept]) + 1
        kept += 1
    title = f"Diff of {counted(len(changes), 'file')}"
    if not kept:
        return f"*{title} left out: it would be too long. The patch is what `--dry-run` writes.*"
    cut = f"*{len(lines) - kept} of {len(lines)} lines left out; the patch is what `--dry-run` writes.*\n\n"
    parts = ["<details>", f"<summary>{title}</summary>", "", fenced("\n".join(lines[:kept]), "diff"), ""]
    return "\n".join([*parts, f"{cut if kept < len(lines) else ''}</details>"])


def _diff_line(line: str) -> str:
    """A line of the diff for readers: no control characters but tabs, and not too long."""
    return "\t".join(map(printable, clipped(line.removesuffix("\r"), LONGEST_LINE).split("\t")))
