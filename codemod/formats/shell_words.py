"""A tokenizer for shell text that keeps offsets: words, operators, arrays, here-documents. Linear, not recursive."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from .text import MAX_DEPTH, Heredoc

_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;|&()]")
_REDIRECT = re.compile(r"(?:\d+|&)?(?:<<<|<<-|<<|>>|>&|<&|>\||<>|<|>)|&>>|&>")
_CONTINUATION = re.compile(r"\\\r?\n")
_PLAIN = re.compile(r"[^\s\"'\\$`;&|<>()]+")
_NESTING = re.compile(r"[\"'\\$`(){}#]")
_ESCAPED = re.compile(r"\\([\"$`])")
_SPACES = " \t\f\v"
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]\n]*\])?\+?=")


class Unclosed(Exception):
    """A quote or bracket opened at ``offset`` never closes."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Word:
    """One word as written, ``text[start:end]``, and as the shell would pass it on (expansions left as written)."""

    start: int
    end: int
    value: str
    items: tuple[Word, ...] = ()
    """The words of ``NAME=( ... )``."""
    is_array: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """``;``, ``&&``, ``(``, a newline, a redirection with its target."""

    start: int
    end: int
    text: str
    target: Word | None = None


@dataclass(slots=True)
class _Pending:
    """A here-document announced on this line."""

    operator: Operator
    delimiter: str
    quoted: bool


@dataclass(slots=True)
class Tokenizer:
    """Cuts ``text[start:end]`` into tokens. Raises Unclosed for quotes that never close."""

    text: str
    start: int
    end: int
    newline_ends: bool = True
    """False inside strings and arrays, where a newline is a blank."""
    is_quoted: bool = False
    """If the range stands in double quotes: ``\\"`` and ``\\$`` in it are the marks of whoever reads the string."""
    tokens: list[Word | Operator] = field(default_factory=list)
    bodies: dict[int, Heredoc] = field(default_factory=dict)
    """Here-document bodies by the start of their redirection."""
    _pending: list[_Pending] = field(default_factory=list)

    def run(self) -> list[Word | Operator]:
        """All tokens of the range."""
        offset = self.start
        while offset < self.end:
            offset = self._next(offset)
        return self.tokens

    def _next(self, offset: int) -> int:
        text = self.text
        mark = text[offset]
        skipped = self._blank(offset)
        if skipped > offset:
            return skipped
        if mark in "\n\r":
            return self._newline(offset)
        if mark == "#":
            return self._line_end(offset)
        if text.startswith("((", offset) and self.newline_ends:
            # Arithmetic, as in ``for ((i=0; i<3; i++))``: its names and semicolons are no commands.
            end = self._nested(offset + 1, ")")
            if text[end - 2 : end] == "))":
                self.tokens.append(Word(offset, end, "(("))
                return end
        redirect = _REDIRECT.match(text, offset, self.end)
        if redirect is not None and not text.startswith(("<(", ">("), offset):
            return self._redirect(offset, redirect.end())
        operator = _OPERATOR.match(text, offset, self.end)
        if operator is not None:
            self.tokens.append(Operator(offset, operator.end(), operator[0]))
            return operator.end()
        word = self._word(offset)
        self.tokens.append(word)
        return word.end

    def _blank(self, offset: int) -> int:
        while offset < self.end:
            if self.text[offset] in _SPACES:
                offset += 1
                continue
            continuation = _CONTINUATION.match(self.text, offset, self.end)
            if continuation is None:
                break
            offset = continuation.end()
        return offset

    def _newline(self, offset: int) -> int:
        after = offset + 2 if self.text.startswith("\r\n", offset) else offset + 1
        if self.newline_ends:
            self.tokens.append(Operator(offset, after, "\n"))
        for pending in self._pending:
            after = self._body(pending, after)
        self._pending.clear()
        return after

    def _body(self, pending: _Pending, offset: int) -> int:
        start = offset
        while offset < self.end:
            stop = self._line_end(offset)
            line = self.text[offset:stop]
            if pending.operator.text.endswith("-"):
                line = line.lstrip("\t")
            if line == pending.delimiter:
                break
            offset = min(self.end, stop + (2 if self.text.startswith("\r\n", stop) else 1))
        self.bodies[pending.operator.start] = Heredoc("", start, offset, pending.quoted)
        return self._line_end(offset)

    def _redirect(self, offset: int, end: int) -> int:
        operator = self.text[offset:end]
        at = self._blank(end)
        if at >= self.end or self.text[at] in "\n\r;&|()<>":
            self.tokens.append(Operator(offset, end, operator))
            return end
        word = self._word(at)
        token = Operator(offset, word.end, operator, word)
        self.tokens.append(token)
        if operator.lstrip("0123456789") in {"<<", "<<-"}:
            raw = self.text[word.start : word.end]
            self._pending.append(_Pending(token, word.value, any(mark in raw for mark in "'\"\\")))
        return word.end

    def _word(self, start: int) -> Word:
        end = start
        while end < self.end:
            after = self._piece(end)
            if after == end:
                break
            end = after
        if end == start:
            end += 1
        raw = self.text[start:end]
        # Arrays stand in plain text only: bash has none inside arrays and strings, and this never recurses.
        if self.newline_ends and self.text.startswith("(", end) and end < self.end and ASSIGNMENT.fullmatch(raw):
            return self._array(start, end)
        return Word(start, end, cooked(_unescaped(raw) if self.is_quoted else raw))

    def _piece(self, offset: int) -> int:
        text = self.text
        plain = _PLAIN.match(text, offset, self.end)
        if plain is not None:
            return plain.end()
        mark = text[offset]
        is_escaped = self.is_quoted and _ESCAPED.match(text, offset, self.end) is not None
        if is_escaped:
            offset, mark = offset + 1, text[offset + 1]
        if mark == "\\":
            return self._escape(offset)
        if mark == "'":
            return self._single(offset)
        if mark == '"' or mark == "`":
            return self._nested(offset + 1, mark, is_escaped=is_escaped)
        if mark == "$":
            return self._dollar(offset, is_escaped=is_escaped)
        if mark in "<>" and text.startswith("(", offset + 1):
            return self._nested(offset + 2, ")")
        return offset

    def _escape(self, offset: int) -> int:
        continuation = _CONTINUATION.match(self.text, offset, self.end)
        if continuation is None:
            return min(offset + 2, self.end)
        # A continuation belongs to the word only when the word really goes on in the next line.
        after = self.text[continuation.end() : continuation.end() + 1]
        return offset if not after or after.isspace() or continuation.end() >= self.end else continuation.end()

    def _single(self, offset: int) -> int:
        closed = self.text.find("'", offset + 1, self.end)
        if closed < 0:
            raise Unclosed(offset)
        return closed + 1

    def _dollar(self, offset: int, *, is_escaped: bool = False) -> int:
        following = self.text[offset + 1 : offset + 2] if offset + 1 < self.end else ""
        if following == "'":
            closed = offset + 2
            while closed < self.end and self.text[closed] != "'":
                closed += 2 if self.text[closed] == "\\" else 1
            if closed >= self.end:
                raise Unclosed(offset)
            return closed + 1
        if following in {"(", "{"}:
            return self._nested(offset + 2, ")" if following == "(" else "}", is_escaped=is_escaped)
        return offset + 1

    def _nested(self, offset: int, closer: str, *, is_escaped: bool = False) -> int:
        """The end of a quoted string or substitution whose inside begins at ``offset``."""
        text, opened, stack = self.text, offset, [closer]
        while stack:
            found = _NESTING.search(text, offset, self.end)
            if found is None or len(stack) > MAX_DEPTH:
                raise Unclosed(opened - 1)
            at, mark, top = found.start(), found[0], stack[-1]
            offset = at + 1
            if mark == "\\":
                offset = at + (1 if is_escaped and _ESCAPED.match(text, at, self.end) else 2)
            elif mark == top:
                stack.pop()
            elif mark == "$":
                following = text[offset : offset + 1]
                if following in {"(", "{"}:
                    stack.append(")" if following == "(" else "}")
                    offset += 1
            elif top != '"':
                offset = self._inside(mark, at, stack)
        return min(offset, self.end)

    def _inside(self, mark: str, at: int, stack: list[str]) -> int:
        """Quotes, parentheses and comments inside a substitution."""
        if mark in '"`':
            stack.append(mark)
        elif mark == "(" and stack[-1] == ")":
            stack.append(")")
        elif mark == "'" and not (stack[-1] == "}" and '"' in stack):
            return self._single(at)
        elif mark == "#" and stack[-1] == ")" and self.text[at - 1].isspace():
            return self._line_end(at)
        return at + 1

    def _array(self, start: int, offset: int) -> Word:
        inner = Tokenizer(self.text, offset + 1, self.end, newline_ends=False)
        at = offset + 1
        while at < self.end and self.text[at] != ")":
            at = inner._next(at)
        if at >= self.end:
            raise Unclosed(offset)
        items = tuple(token for token in inner.tokens if isinstance(token, Word))
        return Word(start, at + 1, self.text[start:offset], items, is_array=True)

    def _line_end(self, offset: int) -> int:
        feed = self.text.find("\n", offset, self.end)
        if feed < 0:
            return self.end
        return feed - 1 if feed > offset and self.text[feed - 1] == "\r" else feed


_PIECE = re.compile(r"\$?'([^']*)'|\$?\"((?:[^\"\\]|\\.)*)\"|\\(\r?\n)|\\(.)|([^'\"\\]+|.)", re.DOTALL)
_DOUBLE_ESCAPE = re.compile(r"\\(?:\r?\n|([\"\\$`]))")


def without_marks(text: str, start: int, end: int) -> tuple[int, int]:
    """A range without the ``\\"`` around it, with which a word in a string in double quotes is quoted."""
    inner = text[start + 2 : end - 2]
    is_whole = text[start:end] == f'\\"{inner}\\"' and '"' not in inner
    return (start + 2, end - 2) if is_whole else (start, end)


def _unescaped(raw: str) -> str:
    """A word in double quotes as whoever reads the string gets it."""
    return _ESCAPED.sub(lambda found: found[1], raw) if "\\" in raw else raw


def cooked(raw: str) -> str:
    """``raw`` with its quotes and escapes taken off; ``$``-expansions stay as they are written."""
    if not any(mark in raw for mark in "'\"\\"):
        return raw
    parts: list[str] = []
    for match in _PIECE.finditer(raw):
        single, double, _, escaped, other = match.groups()
        if double is not None:
            parts.append(_DOUBLE_ESCAPE.sub(lambda found: found[1] or "", double))
        else:
            parts.append(single or escaped or other or "")
    return "".join(parts)
