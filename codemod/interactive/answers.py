"""What was answered to a question about a finding, kept from one round of repairs to the next.

Every round finds the mistakes anew, in text that the fixes of the round before have changed: rows have moved, some
findings are gone. A finding is recognized by rule, file, message and the text of its row. Where that leaves open which
of several answers was given to it, none is recalled: it is better to ask twice than to do what was declined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ..model import Finding, Fix
from ..source.project import Project

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class Reply:
    """What shall be done about a finding."""

    fix: tuple[str, str] | None
    """Name and applicability of the fix to use; None: leave it as it is."""

    @classmethod
    def use(cls, fix: Fix) -> Reply:
        """Carry out this fix."""
        return cls((fix.name, fix.applicability.value))

    def fix_of(self, finding: Finding) -> Fix | None:
        """The fix that was meant, among those of ``finding``; None when it was declined or is no longer offered."""
        return next((fix for fix in finding.fixes if (fix.name, fix.applicability.value) == self.fix), None)


LEAVE = Reply(None)

_Place: TypeAlias = tuple[object, ...]
"""A finding within one round."""
_Kind: TypeAlias = tuple[str, str, str]
"""Rule, file and message."""


@dataclass(frozen=True, slots=True)
class _Given:
    finding: Finding
    text: str
    answer: Reply


class Replies:
    """The answers given so far, by the findings of the present round."""

    def __init__(self) -> None:
        self._given: dict[_Place, _Given] = {}
        self._project: Project | None = None

    def recall(self, finding: Finding) -> Reply | None:
        """What was answered to a finding of the present round; None: nothing that is known for sure."""
        given = self._given.get(_place(finding))
        return given.answer if given is not None else None

    def remember(self, project: Project, finding: Finding, answer: Reply) -> None:
        """Keep the answer to a finding of the present round."""
        self._given[_place(finding)] = _Given(finding, _row_text(project, finding), answer)

    @property
    def left(self) -> int:
        """How many findings of the present round are to be left as they are."""
        return sum(given.answer == LEAVE for given in self._given.values())

    def begin(self, project: Project, findings: Iterable[Finding]) -> None:
        """Carry the answers over to the findings of a new round, as far as it is clear whose they are."""
        old = list(self._given.values())
        before, self._given, self._project = self._project, {}, project
        if before is None or not old:
            return
        groups: dict[_Kind, tuple[list[_Given], list[Finding]]] = {}
        for given in old:
            groups.setdefault(_kind(given.finding), ([], []))[0].append(given)
        for finding in findings:
            if (kind := _kind(finding)) in groups:
                groups[kind][1].append(finding)
        for (_, path, _), (known, found) in groups.items():
            if before.text(path) == project.text(path):
                self._carry_by_place(project, known, found)
            else:
                self._carry_by_text(project, known, found)

    def _carry_by_place(self, project: Project, known: Sequence[_Given], found: Sequence[Finding]) -> None:
        by_span = {given.finding.span: given.answer for given in known}
        for finding in found:
            if finding.span in by_span:
                self.remember(project, finding, by_span[finding.span])

    def _carry_by_text(self, project: Project, known: Sequence[_Given], found: Sequence[Finding]) -> None:
        rows: dict[str, tuple[list[Reply], list[Finding]]] = {given.text: ([], []) for given in known}
        for given in known:
            rows[given.text][0].append(given.answer)
        strangers = []
        for finding in found:
            text = _row_text(project, finding)
            if text in rows:
                rows[text][1].append(finding)
            else:
                strangers.append(finding)
        for answers, same in rows.values():
            if (answer := _common(answers, len(same))) is not None:
                for finding in same:
                    self.remember(project, finding, answer)
        gone = [answer for answers, same in rows.values() if not same for answer in answers]
        if _common(gone, len(strangers)) == LEAVE:  # another fix has changed the row of what was declined
            for finding in strangers:
                self.remember(project, finding, LEAVE)


def _common(answers: Sequence[Reply], found: int) -> Reply | None:
    """The answer to all of ``found`` findings, which cannot be told apart; None when it may differ."""
    if not answers or found > len(answers):
        return None
    if len(set(answers)) == 1:
        return answers[0]
    return LEAVE if answers.count(LEAVE) == found else None  # what was accepted has been carried out


def _place(finding: Finding) -> _Place:
    return finding.path, finding.span, finding.code, finding.message


def _kind(finding: Finding) -> _Kind:
    return finding.code, finding.path, _NUMBER.sub("0", finding.message)  # messages may name rows


def _row_text(project: Project, finding: Finding) -> str:
    document = project.document(finding.path)
    return " ".join(document.line(finding.span.row).split()) if document is not None else ""
