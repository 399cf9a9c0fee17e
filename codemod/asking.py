"""Asks rules for their findings: what each says of the files that are checked, or why it failed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace

from .model import Finding, Rule
from .proof.intent import as_intended
from .purpose.flagged import as_flagged
from .purpose.given import acts
from .source.flaws import flaw_of, said
from .source.named_cells import in_cells
from .source.project import Project


@dataclass(frozen=True, slots=True)
class RuleAnswer:
    findings: tuple[Finding, ...]
    failure: str = ""
    """Why it failed, after these findings; empty when it did not."""


def ask(project: Project, rules: Sequence[Rule], begins: Callable[[Rule], None] | None = None) -> list[RuleAnswer]:
    """The answer of each rule about what is checked; ``begins`` is called before each."""
    answers = []
    for rule in rules:
        if begins is not None:
            begins(rule)
        answers.append(counted(project, rule, told_by(project, rule)))
    return answers


def told_by(project: Project, rule: Rule) -> RuleAnswer:
    """All that a rule says, in whichever files."""
    found: list[Finding] = []
    try:
        with redirect_stdout(sys.stderr):  # a print that was left in a rule must not get into the report
            for finding in rule.check(project):
                if flaw := flaw_of(finding, rule, project):
                    return RuleAnswer(tuple(found), f"the rule failed: {flaw}")
                found.append(finding)
    except (Exception, SystemExit) as error:  # the one boundary: a failing rule is reported, the others go on
        return RuleAnswer(tuple(found), f"the rule failed: {said(error)}{_where(error)}")
    return RuleAnswer(tuple(found))


def counted(project: Project, rule: Rule, told: RuleAnswer) -> RuleAnswer:
    """What of it is in files that are checked and, where it needs a run, in code that some run comes to."""
    found: list[Finding] = []
    try:
        for finding in told.findings:
            if project.is_checked(finding.path) and (not rule.needs_run or acts(project, finding)):
                flagged = as_flagged(project, finding, anywhere=not rule.needs_run)
                found += [_in_cells(project, as_intended(project, flagged))] if flagged is not None else []
    except (Exception, SystemExit) as error:
        return RuleAnswer(tuple(found), f"the rule failed: {said(error)}{_where(error)}")
    return RuleAnswer(tuple(found), told.failure)


def _in_cells(project: Project, finding: Finding) -> Finding:
    """A finding whose messages name places in notebooks as a reader sees them."""
    texts = [finding.message, *(each.message for each in finding.evidence), *(each.message for each in finding.fixes)]
    if all(in_cells(project, text) == text for text in texts):
        return finding
    return replace(
        finding,
        message=in_cells(project, finding.message),
        evidence=tuple(replace(each, message=in_cells(project, each.message)) for each in finding.evidence),
        fixes=tuple(replace(each, message=in_cells(project, each.message)) for each in finding.fixes),
    )


def _where(error: BaseException) -> str:
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    return f" ({frames[-1].name}, line {frames[-1].lineno})" if frames else ""
