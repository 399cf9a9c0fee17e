"""Comments that say which findings do not count: ``# precfix: ignore[PF101] why`` and ``# precfix: ignore-file``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from ..formats.lines import whole_lines
from ..model import Span
from ..source.documents import Document, FileKind
from ..source.project import Project
from .comments import Comment, Layout, layout_of

WORD = "precfix"
"""What every file with such a comment holds."""
MAX_CODES = 100
"""Codes read from one comment."""
MAX_PER_FILE = 2_000
"""Suppressions read from one file; what comes behind them is not seen."""
_DIRECTIVE = re.compile(r"(?:\#+|//+|/\*+)[ \t]*precfix\b[ \t]*(?P<colon>:?)[ \t]*(?P<word>[a-z][\w-]*)?[ \t]*", re.I)
_NEXT = re.compile(r"[ \t]+(?=(?:\#+(?![\w\#])|\#+[a-z]|//))", re.I)
"""Where another comment begins on the same line; ``#12`` belongs to the reason."""
_CODE = re.compile(r"\b[A-Z]{2,}\d+\b", re.I)
_FILE_WORDS = ("ignore-file", "ignore_file", "ignorefile", "file-ignore", "noqa-file", "disable-file", "skip-file")
_LINE_WORDS = (
    *("ignore", "ignored", "ignores", "ignoring", "ignore-line", "ignore-next-line", "noqa", "nolint", "silence"),
    *("disable", "disable-line", "disable-next-line", "off", "skip", "suppress", "allow", "expect", "exclude"),
)


@dataclass(frozen=True, slots=True)
class Suppression:
    """One such comment."""

    path: str
    span: Span
    """The comment's own part, from its mark to the end of the reason."""
    codes: tuple[str, ...]
    """As written: codes, beginnings of codes, names of rules; empty for a whole file and for what is malformed."""
    reason: str
    whole_file: bool
    rows: tuple[int, int] | None
    """First and last row that it covers: findings that start there do not count. None: no row."""
    malformed: str = ""
    """What is wrong with it and what to write; it silences nothing then."""
    listed: tuple[int, int] = (0, 0)
    """Offsets of what stands between the brackets."""
    removal: tuple[int, int] | None = (0, 0)
    """Offsets of what goes when it goes; None where it cannot be taken away safely."""

    @property
    def protects(self) -> bool:
        """Whether nothing in the file may be touched: a bare ``ignore-file``."""
        return self.whole_file and not self.codes and not self.malformed

    def covers(self, row: int) -> bool:
        """Whether findings that start on this row are meant."""
        if self.malformed:
            return False
        return self.whole_file or (self.rows is not None and self.rows[0] <= row <= self.rows[1])


def suppressions_of(document: Document) -> tuple[Suppression, ...]:
    return document.fact(_suppressions)


def suppressed_documents(project: Project) -> Iterator[Document]:
    """The documents that may hold suppressions."""
    for kind in FileKind:
        yield from project.documents(kind, (WORD,))


def _suppressions(document: Document) -> tuple[Suppression, ...]:
    if WORD not in document.text.lower():
        return ()
    layout = layout_of(document)
    found = (each for comment in layout.comments for each in _Reader(document, layout, comment).suppressions())
    return tuple(islice(found, MAX_PER_FILE))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one comment, which may be shared with other tools."""

    document: Document
    layout: Layout
    comment: Comment

    def suppressions(self) -> Iterator[Suppression]:
        start, text = self.comment.start, self.document.text
        if WORD not in text[start : self.comment.end].lower():
            return
        end = self.comment.end - 2 if text.startswith("/*", start) and self._is_closed() else self.comment.end
        for part, after in _parts(text, start, end):
            found = _DIRECTIVE.match(text, part, after)
            if found is not None:
                made = self._read(found, part + len(text[part:after].rstrip()))
                if made is not None:
                    yield made

    def _is_closed(self) -> bool:
        return self.document.text.endswith("*/", self.comment.start + 2, self.comment.end)

    def _read(self, found: re.Match[str], end: int) -> Suppression | None:
        """The suppression whose beginning is ``found``; None when the comment only speaks of precfix."""
        word, at = (found["word"] or "").lower(), found.end()
        text, start = self.document.text, found.start()
        bracket = text.startswith("[", at)
        if not found["colon"] or word not in ("ignore", "ignore-file"):
            similar = _similar(word, text[at:end], bool(found["colon"]))
            wrong = f"{text[start : min(end, start + 60)]!r} is not a precfix directive"
            return self._malformed(start, end, word, wrong) if similar else None
        closed = text.find("]", at, end) if bracket else -1
        codes = tuple(each for each in re.split(r"[,\s]+", text[at + 1 : closed]) if each) if closed >= 0 else ()
        if bracket and (not codes or len(codes) > MAX_CODES):
            wrong = "the bracket never closes" if closed < 0 else "no code in the brackets"
            wrong = f"more than {MAX_CODES} codes" if codes else wrong
            return self._malformed(start, end, word, wrong)
        if word == "ignore" and not bracket:
            return self._malformed(start, end, word, "it names no rule, and to hide everything hides too much")
        if word == "ignore-file" and not self.comment.alone:
            return self._malformed(start, end, word, "a comment about the whole file must be on its own line")
        reason = text[closed + 1 if bracket else at : end].strip().lstrip(":-\u2013 \t")
        listed = (at + 1, closed) if bracket else (at, at)
        return self._made(start, end, codes, reason, word == "ignore-file", listed=listed)

    def _malformed(self, start: int, end: int, word: str, wrong: str) -> Suppression:
        text = self.document.text[start:end]
        codes = ", ".join(dict.fromkeys(code.upper() for code in _CODE.findall(text))) or "PF101"
        instead = "ignore-file" if word in _FILE_WORDS else "ignore"
        mark = "//" if text.startswith("/") else "#"
        message = f"{wrong}; write `{mark} {WORD}: {instead}[{codes}] reason`"
        return self._made(start, end, (), "", False, malformed=message)

    def _made(
        self,
        start: int,
        end: int,
        codes: tuple[str, ...],
        reason: str,
        whole_file: bool,
        malformed: str = "",
        listed: tuple[int, int] = (0, 0),
    ) -> Suppression:
        span = Span(*self.document.position(start), *self.document.position(end))
        rows = None if whole_file else self._rows()
        removal = self._removal(start, end)
        return Suppression(self.document.path, span, codes, reason, whole_file, rows, malformed, listed, removal)

    def _rows(self) -> tuple[int, int] | None:
        if self.comment.alone:
            return self.layout.below(self.comment)
        return self.layout.line_of(self.comment.end_row)

    def _removal(self, start: int, end: int) -> tuple[int, int] | None:
        """The comment's own part with the blanks before it, or the line that it fills."""
        text, comment = self.document.text, self.comment
        if text.endswith("\\", start, comment.end) or self._continues():
            return None
        last = comment.end if not text[end : comment.end].strip(" \t*/") else end
        first = start
        if start == comment.start and last < comment.end:
            return start, comment.end - len(text[last : comment.end].lstrip())
        if start == comment.start and comment.alone:
            return whole_lines(text, start, comment.end)
        while first > 0 and text[first - 1] in " \t":
            first -= 1
        return first, last

    def _continues(self) -> bool:
        """Whether the comment stands on a line of its own in the middle of a continued one."""
        row = self.comment.row
        return self.comment.alone and row > 1 and self.document.line(row - 1).rstrip().endswith("\\")


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The comments that share ``text[start:end]``."""
    while start < end:
        found = _NEXT.search(text, start, end)
        yield start, found.start() if found else end
        start = found.end() if found else end


def _similar(word: str, rest: str, colon: bool) -> bool:
    """Whether somebody meant to silence something."""
    if word in _LINE_WORDS or word in _FILE_WORDS:
        return colon or rest.startswith("[")
    from difflib import get_close_matches

    if get_close_matches(word, ("ignore", "ignore-file"), 1, 0.75):
        return colon or rest.startswith("[")
    return colon and bool(word) and rest.startswith(("[", "=")) and _CODE.search(rest) is not None
