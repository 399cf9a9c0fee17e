"""A fix of a move as ``check`` shows it: safe only where ``migrate`` would apply it without leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..engine import Options
from ..model import Applicability, Finding, Fix, Rule
from ..outcome import Report, Target
from ..source.project import Project
from .carrying import move
from .verifying import MOVE

HELD = "unsafe, as its run would not arrive as a whole (`precfix audit --plan` says why)"


def as_moved(
    project: Project, report: Report, rules: Sequence[Rule], target: Target, options: Options, known: Sequence[Rule]
) -> Report:
    """``report`` of a check; safe moves are tried in memory, and what the move holds back is unsafe."""
    if project.target is None or not any(_is_safe(fix) for each in report.findings for fix in _moves(each)):
        return report
    tried = move(project, rules, target, options, known)
    left = {(item.path, item.message): item for item in tried.remaining if item.code == MOVE}
    return replace(
        report, findings=tuple(_shown(each, left.get((each.path, each.message))) for each in report.findings)
    )


def _moves(finding: Finding) -> tuple[Fix, ...]:
    return finding.fixes if finding.code == MOVE else ()


def _is_safe(fix: Fix) -> bool:
    return fix.applicability is Applicability.SAFE


def _shown(finding: Finding, left: Finding | None) -> Finding:
    """The finding as the move leaves it, with the reason that the move knows."""
    if left is None or not any(map(_is_safe, _moves(finding))):
        return finding
    doubted = {fix.name: fix.message for fix in left.fixes if fix.applicability is Applicability.UNSAFE}
    fixes = (
        replace(fix, applicability=Applicability.UNSAFE, message=doubted.get(fix.name, f"{fix.message}; {HELD}"))
        if _is_safe(fix)
        else fix
        for fix in finding.fixes
    )
    return replace(finding, fixes=tuple(fixes))
