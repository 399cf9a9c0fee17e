"""``precfix explain``: a rule's manual, or what a log says: cause, place in the project, fix."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..model import Finding, UsageError
from .commands import STDIN, AuditRequest
from .manuals import manual_as_json, manual_named
from .options import Color, Format
from .output import FOUND, show_lines, show_markdown, write_bytes

if TYPE_CHECKING:
    from ..diagnosis.answer import Explanations, ProjectView
    from ..source.project import Project
    from .request import Opened

MAX_LOG_BYTES = 128 * 1024 * 1024
"""What is held in memory of a log; more is refused, as the error is at its end."""


def run_explain(what: str, project: Path | None, chosen: Format, output: Path | None, color: Color) -> int:
    """Write the manual of a rule, or the answer to a log; returns the exit code: 1 when nothing in a log is known."""
    data = _log_in(what)
    if data is None:
        if project is not None:
            raise UsageError(f"{what!r} is a rule: --project is for logs")
        _write_manual(what, chosen, output, color)
        return 0
    from ..diagnosis.answer import answers_to

    view = _view_of(project) if project is not None else None
    answers = answers_to(data, view, log_name=_typed_name(what))
    _write(answers, view.project if view is not None else None, chosen, output, color)
    return 0 if answers.is_explained and answers.unknown is None else FOUND


def _write_manual(what: str, chosen: Format, output: Path | None, color: Color) -> None:
    if chosen is Format.JSON:
        write_bytes(manual_as_json(what).encode(), output)
    elif output is None:
        show_markdown(manual_named(what), color.wanted)
    else:
        write_bytes(manual_named(what).encode(), output)


def _write(answers: Explanations, project: Project | None, chosen: Format, output: Path | None, color: Color) -> None:
    from ..diagnosis.data import to_json, to_markdown
    from ..diagnosis.text import answer_lines

    if chosen is Format.TEXT:
        show_lines(iter([*answer_lines(answers, project)]), output, color.wanted)
    else:
        text = to_json(answers, project) if chosen is Format.JSON else to_markdown(answers, project)
        write_bytes(text.encode("utf-8", "backslashreplace"), output)


def _log_in(what: str) -> bytes | None:
    """The log that the argument names or is; None where it is the name of a rule, or should be one."""
    if what == str(STDIN):
        if sys.stdin is None or sys.stdin.closed:
            raise UsageError("standard input is closed")
        return _bounded(sys.stdin.buffer.read(MAX_LOG_BYTES + 1), "standard input")
    if _is_text(what):
        return what.encode("utf-8", "surrogateescape")
    if "\0" not in what and os.path.isfile(what) and not _is_rule(what):
        with open(what, "rb") as file:
            return _bounded(file.read(MAX_LOG_BYTES + 1), repr(what))
    if os.sep in what or what.endswith((".log", ".txt", ".out", ".err")):
        raise UsageError(f"{what!r} is not a file")
    return None


def _typed_name(what: str) -> str:
    """How the same log is named in the next command: a file by its name, what has none by a placeholder."""
    return what if what != str(STDIN) and not _is_text(what) else "LOG"


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MAX_LOG_BYTES:
        raise UsageError(f"{name} is too large: the limit is {MAX_LOG_BYTES:,} bytes; pass the end of it")
    return data


def _is_text(what: str) -> bool:
    """Whether the argument is a message itself: a file's name may hold blanks, so files go first."""
    return any(mark in what for mark in (" ", "\n", ": ")) and not (len(what) < 4096 and os.path.isfile(what))


def _is_rule(what: str) -> bool:
    from .known_rules import installed_rules

    return any(what.upper() == rule.code or what.lower() == rule.name for rule in installed_rules()[0])


def _view_of(folder: Path) -> ProjectView:
    from ..diagnosis.answer import ProjectView
    from ..half.weighed_ledger import weighed_ledger
    from .request import open_request

    if not folder.exists():
        raise UsageError(f"--project {str(folder)!r} does not exist")
    opened = open_request(AuditRequest([folder]))
    return ProjectView(
        opened.project,
        str(folder),
        check=lambda codes: _findings(opened, codes),
        runs=lambda: weighed_ledger(opened.project).runs,
    )


def _findings(opened: Opened, codes: Sequence[str]) -> Sequence[Finding]:
    """What the rules find, suppressed or not: the error is there all the same."""
    from .. import engine

    rules = [rule for rule in opened.known if rule.code in codes]
    return engine.check(opened.project, rules, opened.target).findings
