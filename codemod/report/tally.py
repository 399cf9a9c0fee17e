"""Counting a report: which fix belongs to a finding, what is fixable, how many there are of what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ..model import Applicability, Finding, Fix
from ..outcome import Report, Target


@dataclass(frozen=True, slots=True)
class Tally:
    """The numbers of a report, for the project as it is on disk."""

    findings: int
    files: int
    applied: int
    fixable: int
    """Findings with a fix that can be written at all."""
    fixable_unsafe: int
    """Those of them that need ``--unsafe-fixes``."""
    by_code: dict[str, int]
    by_applicability: dict[str, int]
    """Each finding counts under its most trusted fix, or under ``none``."""


def tally(report: Report) -> Tally:
    """Count the findings of a report."""
    levels = Counter(most_trusted(finding) for finding in report.findings)
    unsafe, safe = levels[Applicability.UNSAFE.value], levels[Applicability.SAFE.value]
    return Tally(
        findings=len(report.findings),
        files=len({finding.path for finding in report.findings}),
        applied=len(report.applied),
        fixable=safe + unsafe,
        fixable_unsafe=unsafe,
        by_code=dict(sorted(Counter(finding.code for finding in report.findings).items())),
        by_applicability={level: levels[level] for level in [*(known.value for known in Applicability), "none"]},
    )


def most_trusted(finding: Finding) -> str:
    """The level of the fix that may be trusted most; ``none`` without one."""
    present = {fix.applicability for fix in finding.fixes}
    return next((level.value for level in Applicability if level in present), "none")


def regime_told(target: Target) -> str:
    """The regime to arrive at, for people: that a project says nothing is told as such."""
    return "none, the project declares no single precision" if target.regime == "unknown" else target.regime


def silenced_counts(report: Report) -> str:
    """``3 findings silenced (baseline 2, comment 1)``; empty when none is."""
    if not report.silenced:
        return ""
    counts = Counter(each.by.value for each in report.silenced)
    by = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return f"{counted(len(report.silenced), 'finding')} silenced ({by})"


def what_was_read(report: Report, hint: str = "") -> str:
    """``Read 12 files, skipped 1; left out 2 files named by .gitignore.``; ``hint``: where to see which."""
    skipped = f", skipped {len(report.skipped)}" if report.skipped else ""
    return f"Read {counted(report.files_seen, 'file')}{skipped}{_left_out(report)}{hint if report.left_out else ''}."


def _left_out(report: Report) -> str:
    parts: dict[str, list[str]] = {}
    for each in report.left_out:
        parts.setdefault(each.reason, []).append(each.path)
    told = [f"{_files_and_folders(paths)} {reason}" for reason, paths in sorted(parts.items())]
    return f"; left out {', '.join(told)}" if told else ""


def _files_and_folders(paths: list[str]) -> str:
    folders = sum(path.endswith("/") for path in paths)
    counts = ((len(paths) - folders, "file"), (folders, "folder"))
    return " and ".join(counted(number, word) for number, word in counts if number)


def counted(number: int, word: str) -> str:
    """``1 file``, ``2 files``, ``2 fixes``."""
    if number != 1:
        word = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("x") else f"{word}s"
    return f"{number} {word}"


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings by file, place and code: the order never depends on rules or threads."""
    return sorted(findings, key=lambda finding: (finding.path, finding.span, finding.code, finding.message))


def settled(report: Report) -> list[tuple[Finding, Fix]]:
    """The applied fixes, each with the finding as it was before the first change.

    A fix that had to wait for a later round belongs to a finding whose rows may have moved; its twin in
    ``report.findings`` has the same code, file and message. What only came up in a later round has none.
    """
    known = set(report.findings)
    at_once = {finding for finding, _ in report.applied if finding in known}
    waiting: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in in_order(known - at_once):
        waiting.setdefault(likeness(finding), []).append(finding)
    out = []
    for finding, fix in report.applied:
        twins = [] if finding in known else waiting.get(likeness(finding), [])
        out.append((twins.pop(0) if twins else finding, fix))
    return out


def likeness(finding: Finding) -> tuple[str, str, str]:
    """What a finding keeps when lines move."""
    return finding.code, finding.path, finding.message
