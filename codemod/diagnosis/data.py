"""An answer as JSON, and as Markdown to paste into an issue."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ..engine import documents_with
from ..model import EditRefused, Fix
from ..report.markdown_text import code, escaped, fenced
from ..report.proposal import diff_view
from ..source.project import Project
from .answer import Explanation, Explanations
from .deciding import FaultSeen, Judged
from .project_side import Explaining
from .told import at_row, fault_line, message_of, short, sureness_of, unknown_lines, where
from .tracebacks import StackFrame

VERSION = 1


def to_json(answers: Explanations, project: Project | None) -> str:
    """One object; the fields are described in docs/explain.md."""
    unknown = answers.unknown
    data = {
        "version": VERSION,
        "explained": answers.is_explained and unknown is None,
        "answers": [_answer(answer, project) for answer in answers.known],
        "unknown": None
        if unknown is None
        else {"kind": unknown.kind, "message": short(unknown.message), "row": unknown.row},
        "versions": dict(sorted(answers.log.versions.items())),
        "runs": list(answers.runs),
        "log": {"rows": answers.log.rows, "cut": answers.log.cut},
    }
    return json.dumps(data, indent=2) + "\n"


def _answer(answer: Explanation, project: Project | None) -> dict[str, object]:
    entry, match, place = answer.entry, answer.evidence.match, answer.place
    return {
        "id": entry.id,
        "kind": entry.kind,
        "title": entry.title,
        "means": entry.means,
        "message": message_of(answer),
        "row": match.statement.row,
        "times": match.statement.times,
        "streams": list(match.statement.streams),
        "dtypes": {"first": match.first or None, "second": match.second or None},
        "operation": match.operation or None,
        "owner": answer.evidence.owner or None,
        "frame": _frame(answer.evidence.user_frame),
        "library_frame": _frame(answer.evidence.library_frame),
        "place": None if place is None else {"filename": place[0], "row": place[1]},
        "frames_in_project": [{"filename": each.path, "row": each.row, "moved": each.moved} for each in answer.located],
        "causes": [_cause(each) for each in answer.causes],
        "question": entry.question or None,
        "faults": [_fault(each) for each in answer.faults],
        "findings": [_finding(each, project) for each in answer.findings],
        "seen": [{"filename": met.path, "row": met.row, "message": met.says} for met in answer.met],
        "check": entry.check or None,
        "next": list(answer.commands),
    }


def _frame(frame: StackFrame | None) -> dict[str, object] | None:
    if frame is None:
        return None
    return {"filename": frame.path, "row": frame.row, "function": frame.function or None, "code": frame.code or None}


def _cause(judged: Judged) -> dict[str, object]:
    cause = judged.cause
    return {
        "id": cause.id,
        "message": cause.says,
        "sureness": judged.sureness.name.lower(),
        "belief": round(judged.belief, 3),
        "threads": {"seen": cause.seen, "of": cause.of},
        "because": list(judged.reasons),
        "fix": cause.fix,
        "rules": list(cause.rules),
    }


def _fault(seen: FaultSeen) -> dict[str, object]:
    fault = seen.fault
    return {
        "library": fault.library,
        "version": seen.version or None,
        "fixed_in": fault.below,
        "message": fault.says,
        "source": fault.source,
    }


def _finding(item: Explaining, project: Project | None) -> dict[str, object]:
    finding, fix = item.finding, item.fix
    return {
        "code": finding.code,
        "message": finding.message,
        "filename": finding.path,
        "location": {"row": finding.span.row, "column": finding.span.column},
        "nearness": ("traceback", "file", "project")[item.nearness],
        "evidence": [{"filename": e.path, "row": e.span.row, "message": e.message} for e in finding.evidence],
        "fix": None
        if fix is None
        else {
            "name": fix.name,
            "applicability": fix.applicability.value,
            "message": fix.message,
            "rows": [{"filename": path, "row": row} for path, row in item.rows],
            "diff": "\n".join(_diff(fix, project)),
        },
    }


def _diff(fix: Fix, project: Project | None) -> list[str]:
    if project is None:
        return []
    try:
        view = diff_view(documents_with(project, [fix]))
    except EditRefused:
        return []
    return ["".join(text for text, _ in line) for line in view.lines]


def to_markdown(answers: Explanations, project: Project | None) -> str:
    """The answers as a section of an issue or a pull request."""
    lines: list[str] = []
    if answers.unknown is not None or not answers.known:
        lines += ["**Not known**", "", *map(escaped, unknown_lines(answers.unknown, answers)), ""]
    for answer in answers.known:
        lines += [*_markdown(answer, project), ""]
    if answers.runs:
        lines += ["The project's runs compute in:", "", *(f"- {code(run)}" for run in answers.runs), ""]
    return "\n".join(lines).rstrip("\n") + "\n"


def _markdown(answer: Explanation, project: Project | None) -> Iterator[str]:
    yield f"### {answer.entry.title}"
    yield ""
    yield f"{code(message_of(answer))} ({at_row(answer)})"
    yield ""
    yield answer.entry.means
    yield ""
    evidence = answer.evidence
    for word, frame in (("Raised at", evidence.user_frame), ("Through the library", evidence.library_frame)):
        if frame is not None:
            yield f"- **{word}** {code(where(frame))}"
    for seen in answer.faults:
        yield f"- **Library** {fault_line(seen)}"
    for number, judged in enumerate(answer.causes):
        because = f" Because {escaped('; '.join(judged.reasons[:4]))}." if judged.reasons else ""
        word = "Or" if number else "Cause"
        yield f"- **{word}** ({sureness_of(judged)}) {judged.cause.says}{because} {judged.cause.fix}"
    if answer.entry.question and len(answer.causes) > 1:
        yield f"- **What decides** {answer.entry.question}"
    for command in answer.commands:
        yield f"- **Next** {code(command)}"
    for item in answer.findings:
        at = f"{item.finding.path}:{item.finding.span.row}"
        yield ""
        yield f"{code(at)} {item.finding.code} {escaped(item.finding.message)}"
        if item.fix is not None and (diff := _diff(item.fix, project)):
            yield ""
            yield fenced("\n".join(diff), "diff")
