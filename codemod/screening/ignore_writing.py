"""Writes ``# precfix: ignore[...]`` comments for findings, where they cover these and change nothing else.

What was written is proven by reading it again: every comment must cover its findings' line and no other, and syntax
tree or data must be what they were. What cannot be proven is not written, and said.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..formats.opening import open_config
from ..formats.text import ConfigUnreadable
from ..model import EditRefused, Finding
from ..outcome import UNUSED_SUPPRESSION, Skipped
from ..source.documents import Document, Unparsable
from ..source.project import Project
from .comments import DATA_KINDS, Layout, dialect_of, layout_of
from .suppressions import WORD, Suppression, suppressions_of

MAX_REASON = 200
"""Characters of a reason."""
_TRAILING = frozenset({"python", "notebook", "yaml", "toml", "json", "shell", "text"})
"""Where a comment can stand at the end of a line with something else."""
_OPEN_LINES = frozenset({"python", "notebook"})
"""Where it can also stand at the end of a line's first row when the line has more."""
_NO_COMMENT = "cannot hold comments; use per-file-ignores in the settings, or a baseline"


class IgnoresWritten(NamedTuple):
    """What ``check --add-ignore`` comes to."""

    texts: dict[str, str]
    """Path -> new text, of every file that changes."""
    written: list[Finding]
    """The findings that are now covered."""
    skipped: tuple[Skipped, ...]
    """``path:row`` of the others, and why."""


@dataclass(frozen=True, slots=True)
class _Insertion:
    """One comment to write for the findings of one logical line."""

    rows: tuple[int, int]
    """The line, as it stands in the old text."""
    at: int
    end: int
    text: str
    """Replaces ``at:end`` of the old text."""
    findings: tuple[Finding, ...]
    added_rows: int = 0
    """How many rows it adds above the line."""


def with_ignores(project: Project, findings: Iterable[Finding], reason: str = "") -> IgnoresWritten:
    """The project's files with a comment for each finding; nothing is written to disk.

    Several findings of one line share a comment, and one that is there already gets their codes. The length of lines
    is not looked at.
    """
    texts: dict[str, str] = {}
    written: list[Finding] = []
    skipped: list[Skipped] = []
    by_path: dict[str, list[Finding]] = {}
    for finding in findings:
        by_path.setdefault(finding.path, []).append(finding)
    for path, mine in sorted(by_path.items()):
        document = project.document(path)
        if document is None:
            skipped += [_skip(finding, "the file cannot be read") for finding in mine]
            continue
        unused = [finding for finding in mine if finding.code == UNUSED_SUPPRESSION]
        skipped += [_skip(finding, "a comment that silences nothing is taken away, not silenced") for finding in unused]
        others = [finding for finding in mine if finding.code != UNUSED_SUPPRESSION]
        text, done, left = _in_document(document, others, clean_reason(reason))
        if done:
            texts[path] = text
        written += done
        skipped += left
    return IgnoresWritten(texts, written, tuple(skipped))


def clean_reason(reason: str) -> str:
    """A reason as it can stand in any comment: one line without brackets, comment marks and control characters."""
    words = "".join(char if char.isprintable() else " " for char in reason).split()
    text = " ".join(words).replace("[", "(").replace("]", ")").replace("*/", "* /").replace("//", "/")
    return text.replace("#", "").strip(" \\-:\u2013")[:MAX_REASON].strip(" \\")


def _skip(finding: Finding, reason: str) -> Skipped:
    return Skipped(f"{finding.path}:{finding.span.row}", f"{finding.code} got no comment: {reason}")


def _in_document(
    document: Document, findings: Sequence[Finding], reason: str
) -> tuple[str, list[Finding], list[Skipped]]:
    """The new text of one document, the findings that are covered by it, and the others."""
    why = _cannot(document)
    if why:
        return document.text, [], [_skip(finding, why) for finding in findings]
    insertions, skipped = _insertions(document, findings, reason)
    text = _proven(document, insertions)
    if text is None:
        good: list[_Insertion] = []
        for insertion in insertions[:MAX_SINGLE]:  # something cannot be proven: find out what
            if _proven(document, [*good, insertion]) is not None:
                good.append(insertion)
        failed = [each for each in insertions if each not in good]
        skipped += [_skip(each, "no comment here covers exactly this line") for bad in failed for each in bad.findings]
        insertions, text = good, _proven(document, good)
    if text is None:
        return document.text, [], [_skip(finding, "no comment could be proven harmless") for finding in findings]
    return text, [finding for each in insertions for finding in each.findings], skipped


MAX_SINGLE = 100
"""Comments of one file that are tried one by one when all together fail."""


def _cannot(document: Document) -> str:
    """Why no comment can be written into the document; empty when one can."""
    dialect = dialect_of(document)
    if dialect == "prose":
        return f"this kind of file {_NO_COMMENT}"
    if dialect == "json" and document.path.lower().endswith(".json") and not layout_of(document).comments:
        return f"JSON {_NO_COMMENT}"
    return "" if layout_of(document).complete else "the file cannot be read to its end"


def _insertions(document: Document, findings: Sequence[Finding], reason: str) -> tuple[list[_Insertion], list[Skipped]]:
    layout, existing = layout_of(document), suppressions_of(document)
    by_line: dict[tuple[int, int], list[Finding]] = {}
    for finding in findings:
        by_line.setdefault(layout.line_of(finding.span.row), []).append(finding)
    made: list[_Insertion] = []
    skipped: list[Skipped] = []
    for rows, mine in sorted(by_line.items()):
        codes = sorted({finding.code for finding in mine})
        old = next((each for each in existing if _is_about(layout, each, rows)), None)
        try:
            if old is not None:
                made.append(_merged(rows, old, codes, tuple(mine)))
            else:
                made.append(_new(document, layout, rows, _comment(document, codes, reason), tuple(mine)))
        except EditRefused as refusal:
            skipped += [_skip(finding, str(refusal)) for finding in mine]
    return made, skipped


def _is_about(layout: Layout, suppression: Suppression, rows: tuple[int, int]) -> bool:
    """Whether a comment is about this line and nothing else."""
    covered = suppression.rows
    if covered is None or suppression.malformed or covered[1] != rows[1]:
        return False
    below = layout.following[suppression.span.end_row] if suppression.span.end_row < len(layout.following) else 0
    return covered[0] == rows[0] or (covered[0] < rows[0] and below == rows[0])


def _merged(rows: tuple[int, int], old: Suppression, codes: Sequence[str], findings: tuple[Finding, ...]) -> _Insertion:
    listed = ", ".join(sorted({*(code.upper() if "-" not in code else code for code in old.codes), *codes}))
    return _Insertion(rows, *old.listed, listed, findings)


def _comment(document: Document, codes: Sequence[str], reason: str) -> str:
    mark = "//" if dialect_of(document) == "json" else "#"
    return f"{mark} {WORD}: ignore[{', '.join(codes)}] {reason}".rstrip()


def _new(
    document: Document, layout: Layout, rows: tuple[int, int], comment: str, findings: tuple[Finding, ...]
) -> _Insertion:
    """At the end of the line's first or last row, else on a row of its own above it."""
    first, last = rows
    dialect = dialect_of(document)
    if dialect in _TRAILING and (first == last or dialect in _OPEN_LINES):
        for row in (first, last):
            if _can_end_with_comment(document, layout, row):
                return _trailing(document, rows, row, comment, findings)
    return _on_own_row(document, layout, rows, comment, findings)


def _can_end_with_comment(document: Document, layout: Layout, row: int) -> bool:
    if row in layout.masked or document.line(row).endswith("\\") or not document.line(row).strip():
        return False
    return not any(first <= row < last for first, last in layout.strings)


def _trailing(
    document: Document, rows: tuple[int, int], row: int, comment: str, findings: tuple[Finding, ...]
) -> _Insertion:
    line = document.line(row)
    start = document.offset(row, 1)
    at = start + len(line.rstrip(" \t"))
    return _Insertion(rows, at, at, f"  {comment}", findings)


def _on_own_row(
    document: Document, layout: Layout, rows: tuple[int, int], comment: str, findings: tuple[Finding, ...]
) -> _Insertion:
    line = document.line(rows[0])
    if rows[0] in layout.masked and "%%" in line:
        raise EditRefused("a cell magic stands at the top of its cell")
    indent = line[: len(line) - len(line.lstrip(" \t"))]
    if dialect_of(document) == "makefile" and indent.startswith("\t"):
        indent = ""  # behind a tab it would be a command
    at = document.offset(rows[0], 1)
    return _Insertion(rows, at, at, f"{indent}{comment}{document.newline}", findings, added_rows=1)


def _proven(document: Document, insertions: Sequence[_Insertion]) -> str | None:
    """The text with all insertions, when each covers its line and nothing else has changed."""
    text = _spliced(document.text, insertions)
    try:
        after = document.with_text(text)
    except EditRefused:
        return None
    if after.text != text or not _covers(after, insertions) or not same_content(document, after):
        return None
    return text


def _spliced(text: str, insertions: Sequence[_Insertion]) -> str:
    parts, done = [], 0
    for each in sorted(insertions, key=lambda item: (item.at, item.end)):
        parts += [text[done : each.at], each.text]
        done = each.end
    return "".join([*parts, text[done:]])


def _covers(after: Document, insertions: Sequence[_Insertion]) -> bool:
    """Whether a comment for each insertion covers its line, and no line but that."""
    by_end: dict[int, list[Suppression]] = {}
    for each in suppressions_of(after):
        if each.rows is not None and not each.malformed:
            by_end.setdefault(each.rows[1], []).append(each)
    moved = 0
    for insertion in sorted(insertions, key=lambda item: (item.rows, item.at)):
        moved += insertion.added_rows
        first, last = insertion.rows[0] + moved, insertion.rows[1] + moved
        codes = {finding.code for finding in insertion.findings}
        about = (each for each in by_end.get(last, ()) if _is_about(layout_of(after), each, (first, last)))
        if not any(codes <= set(each.codes) for each in about):
            return False
    return True


def same_content(before: Document, after: Document) -> bool:
    """Whether two documents are the same to whoever reads them, comments aside."""
    dialect = dialect_of(before)
    if dialect in ("python", "notebook"):
        try:
            return ast.dump(before.tree) == ast.dump(after.tree)
        except (Unparsable, RecursionError):
            return False
    if dialect not in DATA_KINDS:
        return _lines(before) == _lines(after)
    try:
        return _entries(before, dialect) == _entries(after, dialect)
    except ConfigUnreadable:
        return False


def _entries(document: Document, kind: str) -> list[tuple[object, ...]]:
    found = open_config(document.text, kind)
    entries = [
        (each.key, each.value, each.raw, each.style, each.container, each.kind, each.document, each.anchor, each.tag)
        for each in found.entries
    ]
    bodies = [(document.text[each.start : each.end],) for each in found.heredocs]
    return [*entries, *bodies, *((each.words, each.script) for each in found.commands)]


def _lines(document: Document) -> list[str]:
    """The rows without their comments and without those that hold nothing else."""
    layout, rows = layout_of(document), []
    starts = {comment.row: comment.start for comment in layout.comments}
    for row in range(1, document.rows + 1):
        line = document.line(row)
        if row in starts:
            line = line[: starts[row] - document.offset(row, 1)]
        if line.strip():
            rows.append(line.rstrip())
    return rows
