"""An answer for people, as lines in color."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from ..engine import documents_with
from ..model import EditRefused
from ..report.frame import OutputLine
from ..report.places import ReportPlaces
from ..report.printable import printable
from ..report.proposal import diff_view
from ..source.project import Project
from .answer import Explanation, Explanations
from .deciding import Judged
from .project_side import Explaining
from .told import at_row, fault_line, message_of, sureness_of, unknown_lines, where

WIDTH = 110
NEARNESS = ("on a line of the traceback", "in a file of the traceback", "elsewhere in the project")


def answer_lines(answers: Explanations, project: Project | None) -> Iterator[OutputLine]:
    """All answers, the one that matters most first."""
    if answers.unknown is not None or not answers.known:
        for line in unknown_lines(answers.unknown, answers):
            yield ((line, "text"),)
        if answers.known:
            yield ()
            yield (("What precfix knows of the rest of the log:", "place"),)
            yield ()
    for number, answer in enumerate(answers.known):
        if number == 1:
            yield (("The log also says:", "place"),)
            yield ()
        yield from _answer(answer, project, brief=number > 0)
        yield ()
    if answers.runs and answers.known:
        yield (("The project's runs compute in: ", "place"), ("; ".join(map(printable, answers.runs)), "text"))
    if answers.log.cut:
        yield (("The log is longer than 64 MiB: its middle was not read.", "note"),)


def _answer(answer: Explanation, project: Project | None, brief: bool) -> Iterator[OutputLine]:
    yield (message_of(answer), "bad"), (f"  ({at_row(answer)})", "note")
    yield ((f"{answer.entry.title} [{answer.entry.id}]", "place"),)
    yield from _prose((("  ", "text"),), answer.entry.means)
    yield from _where(answer)
    for seen in answer.faults:
        yield from _prose((("  Library: ", "rule"),), printable(fault_line(seen)))
    yield from _causes(answer, brief)
    for item in answer.findings[: 1 if brief else None]:
        yield from _finding(item, project)
    for met in answer.met if not answer.findings else ():
        yield ("  Seen there: ", "note"), (printable(f"{met.path}:{met.row} {met.says}"), "text")
    if answer.entry.check and not brief:
        yield from _prose((("  Also check: ", "note"),), answer.entry.check)
    for command in answer.commands:
        yield ("  Next: ", "good"), (printable(command), "text")


def _prose(head: OutputLine, text: str) -> Iterator[OutputLine]:
    """Sentences behind their heading, in rows that can be read."""
    taken = sum(len(part) for part, _ in head)
    first, *rest = wrap(
        text, WIDTH, initial_indent=" " * min(taken, WIDTH // 2), break_long_words=False, break_on_hyphens=False
    ) or [""]
    yield *head, (first.lstrip(), "text")
    for line in wrap(" ".join(rest), WIDTH - 4, break_long_words=False, break_on_hyphens=False):
        yield ((f"    {line}", "text"),)


def _where(answer: Explanation) -> Iterator[OutputLine]:
    own, through = answer.evidence.user_frame, answer.evidence.library_frame
    if own is not None:
        yield ("  Raised at: ", "note"), (where(own), "text")
    if through is not None:
        word = "Through the library" if own is not None else "Raised in the library"
        yield (f"  {word}: ", "note"), (where(through), "text")
    if answer.located:
        first = answer.located[0]
        moved = ", where that line is now" if first.moved else ""
        yield ("  In the project: ", "note"), (printable(f"{first.path}:{first.row}"), "place"), (moved, "note")


def _causes(answer: Explanation, brief: bool) -> Iterator[OutputLine]:
    best, *others = answer.causes
    yield from _prose((("  Cause ", "place"), (f"({sureness_of(best)}): ", "note")), best.cause.says)
    for reason in best.reasons[:4]:
        yield ("    because ", "note"), (printable(reason), "text")
    yield from _prose((("  Fix: ", "place"),), best.cause.fix)
    for other in [] if brief else others:
        yield from _other(other)
    if answer.entry.question and others and not brief:
        yield from _prose((("  What decides: ", "place"),), answer.entry.question)


def _other(judged: Judged) -> Iterator[OutputLine]:
    because = f" ({'; '.join(judged.reasons[:2])})" if judged.reasons else ""
    said = f"{sureness_of(judged)}{because}"
    yield from _prose(
        (("  Or ", "note"), (f"({printable(said)}): ", "note")), f"{judged.cause.says} {judged.cause.fix}"
    )


def _finding(item: Explaining, project: Project | None) -> Iterator[OutputLine]:
    finding = item.finding
    at = ReportPlaces(project.document if project is not None else lambda _path: None).start(finding.path, finding.span)
    yield ("  ", "text"), (at, "place"), (f" {finding.code} ", "rule"), (printable(finding.message), "text")
    yield ((f"    {NEARNESS[item.nearness]}", "note"),)
    for each in finding.evidence[:4]:
        yield ("    = because: ", "note"), (printable(f"{each.path}:{each.span.row} {each.message}"), "text")
    if item.fix is None or project is None:
        yield (("    There is no automatic fix.", "note"),)
        return
    level = item.fix.applicability.value
    yield ("    Fix ", "note"), (f"[{level}]", level), (printable(f" {item.fix.name}: {item.fix.message}"), "text")
    try:
        view = diff_view(documents_with(project, [item.fix]))
    except EditRefused as refusal:
        yield ((printable(f"    the fix cannot be carried out: {refusal}"), "note"),)
        return
    for line in view.lines:
        yield (("    ", "text"), *line)
