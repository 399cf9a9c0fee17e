"""Comments and logical lines of Python, as Python's own tokenizer sees them."""

from __future__ import annotations

import re
import tokenize
import warnings
from collections.abc import Iterator
from tokenize import TokenInfo

from ...source.documents import Document
from ...source.magics import CONTINUED, MARKER, MASK
from .layout import LayoutBuilder
from .shell_comments import read_words

_NEWLINE = re.compile("\r\n|\n|\r")
_BETWEEN = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
_STRING_START = getattr(tokenize, "FSTRING_START", -1), getattr(tokenize, "TSTRING_START", -1)
_STRING_END = getattr(tokenize, "FSTRING_END", -2), getattr(tokenize, "TSTRING_END", -2)


def read_python(builder: LayoutBuilder, document: Document) -> None:
    """Read a Python file or the virtual module of a notebook."""
    _Reader(builder).read()
    if document.notebook is not None:
        _read_shell_lines(builder, document)


class _Reader:
    """One pass over the tokens."""

    def __init__(self, builder: LayoutBuilder) -> None:
        self._builder = builder
        self._first: TokenInfo | None = None
        self._decorated = 0  # the row of the first decorator of what comes next
        self._open: list[int] = []  # rows where strings with expressions in them begin

    def read(self) -> None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for token in tokenize.generate_tokens(_lines(self._builder.text).__next__):
                    self._token(token)
        except (tokenize.TokenError, SyntaxError, ValueError, RecursionError):
            self._builder.complete = False

    def _token(self, token: TokenInfo) -> None:
        builder, row = self._builder, token.start[0]
        if token.type == tokenize.COMMENT:
            self._comment(token)
        elif token.type in _STRING_START:
            self._open.append(row)
        elif token.type in _STRING_END and self._open:
            builder.string(self._open.pop(), token.end[0])
        elif token.type == tokenize.STRING:
            builder.string(row, token.end[0])
        if token.type == tokenize.NEWLINE and self._first is not None:
            self._end_line(self._first, row)
            self._first = None
        elif self._first is None and token.type not in _BETWEEN and token.type != tokenize.NEWLINE:
            self._first = token

    def _comment(self, token: TokenInfo) -> None:
        start = self._builder.starts[token.start[0] - 1] + token.start[1]
        if token.string.startswith(MARKER):
            self._builder.masked.add(token.start[0])
        elif self._builder.text.startswith("#", start):
            self._builder.comment(start)

    def _end_line(self, first: TokenInfo, last: int) -> None:
        row = first.start[0]
        self._builder.joined(row, last)
        if first.string == "@":
            self._decorated = self._decorated or row
            return
        if self._decorated and first.string in ("def", "class", "async"):
            self._builder.header(self._decorated, last)
        self._decorated = 0


def _lines(text: str) -> Iterator[str]:
    """The rows as the tokenizer wants them: it knows no lone carriage returns."""
    rows = _NEWLINE.split(text)
    yield from (f"{row}\n" for row in rows[:-1])
    if rows[-1]:
        yield rows[-1]
    yield ""


def _read_shell_lines(builder: LayoutBuilder, document: Document) -> None:
    """The comments of ``!commands``; a command goes on in the masked rows below it.

    So does a cell of shell, in which every command stands alone.
    """
    first, goes_on = 0, False
    for magic in document.shell_lines:
        start = builder.starts[magic.row - 1]
        bare = document.text[start : start + len(document.line(magic.row))].lstrip(" \t\f")
        if bare.startswith(MASK) or not first or not goes_on:
            first = magic.row
        elif bare.startswith(CONTINUED):
            builder.joined(first, magic.row)
        goes_on = magic.text.endswith("\\")
        begin = start + magic.column - 1
        read_words(builder, begin, begin + len(magic.text), joins=False)
