"""Comments of shell scripts and of files that hold shell: Makefiles, Dockerfiles, files of variables."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping

from ...formats.shell_lines import logical_end
from ...formats.shell_words import Operator, Tokenizer, Unclosed, Word
from ...source.documents import Document
from .layout import LayoutBuilder

_ENV_VALUE = re.compile(
    r"[ \t]*(?:export[ \t]+)?[A-Za-z_][\w.-]*[ \t]*=[ \t]*(?P<quoted>\"[^\"\\]*(?:\\.[^\"\\]*)*\"|'[^']*')?", re.DOTALL
)
_SHELL_SYNTAX = re.compile(r"^[ \t]*(?:(?:if|then|else|fi|for|while|do|done|case|esac|function)\b|[{}(]|\w+\(\))", re.M)
_HASH = re.compile(r"(?:^|(?<=[ \t]))#", re.M)
_MAKE_HASH = re.compile(r"(?<!\\)#")
_DOCKER_HEREDOC = re.compile(r"<<-?[\"']?([A-Za-z_]\w*)[\"']?")


def _read_shell(builder: LayoutBuilder, document: Document) -> None:
    builder.complete = read_words(builder, 0, len(builder.text))


def read_words(builder: LayoutBuilder, start: int, end: int, joins: bool = True) -> bool:
    """Note the comments of the shell text ``text[start:end]`` and, with ``joins``, its logical lines.

    False when a quote or bracket never closes: what comes before it is noted.
    """
    tokenizer = Tokenizer(builder.text, start, end)
    closed = True
    try:
        tokenizer.run()
    except (Unclosed, RecursionError):
        closed = False
    bodies = sorted((each.start, builder.line_end(each.end)) for each in tokenizer.bodies.values())
    done = start
    for token in _leaves(tokenizer.tokens):
        _comments_between(builder, done, token[0], bodies)
        done = max(done, token[1])
    if closed:
        _comments_between(builder, done, end, bodies)
    if joins:
        _join(builder, tokenizer.tokens, bodies)
    return closed


def _leaves(tokens: list[Word | Operator]) -> Iterator[tuple[int, int]]:
    """The ranges in which no comment can begin, in order: an array is cut into its words."""
    for token in tokens:
        if isinstance(token, Word) and token.is_array:
            opened = token.start
            first = token.items[0].start if token.items else token.end - 1
            yield opened, opened + len(token.value) + 1
            yield from ((item.start, item.end) for item in token.items if item.start >= first)
            yield token.end - 1, token.end
        else:
            yield token.start, token.end


def _comments_between(builder: LayoutBuilder, start: int, end: int, bodies: list[tuple[int, int]]) -> None:
    """Between two tokens stand blanks, comments and here-documents only."""
    at = builder.text.find("#", start, end)
    while at >= 0:
        index = bisect_right(bodies, (at, len(builder.text) + 1)) - 1
        in_body = index >= 0 and at < bodies[index][1]
        after = bodies[index][1] if in_body else builder.comment(at, min(builder.line_end(at), end))
        at = builder.text.find("#", after, end)


def _join(builder: LayoutBuilder, tokens: list[Word | Operator], bodies: list[tuple[int, int]]) -> None:
    """A statement with what it continues on, and with the here-documents that begin in it."""
    first = -1
    waiting = bodies[::-1]
    for token in tokens:
        if isinstance(token, Operator) and token.text == "\n":
            if first >= 0:
                last = builder.row(token.start)
                while waiting and builder.row(waiting[-1][0]) <= last + 1:
                    last = max(last, builder.row(waiting.pop()[1]))
                builder.joined(builder.row(first), last)
            first = -1
            continue
        first = token.start if first < 0 else first
        rows = builder.row(token.start), builder.row(token.end - 1)
        if not (isinstance(token, Word) and token.is_array):
            builder.string(*rows)
    if first >= 0 and tokens:
        builder.joined(builder.row(first), builder.row(tokens[-1].end - 1))


def _read_env(builder: LayoutBuilder, document: Document) -> None:
    """``KEY=value`` lines: ``#`` counts at the start of a line and behind a blank."""
    text, offset = builder.text, 0
    if _SHELL_SYNTAX.search(text):
        _read_shell(builder, document)
        return
    while offset < len(text):
        end = logical_end(text, offset)
        value = _ENV_VALUE.match(text, offset)
        begin = offset
        if value is not None and value["quoted"] is not None:
            begin = value.end()
            end = max(end, logical_end(text, begin))
        _first_hash(builder, _HASH, begin, end)
        builder.joined(builder.row(offset), builder.row(max(offset, end - 1)))
        offset = _next(builder, end)


def _read_makefile(builder: LayoutBuilder, document: Document) -> None:
    """In recipes the shell decides what is a comment; elsewhere every ``#`` without a backslash begins one."""
    text, offset = builder.text, 0
    while offset < len(text):
        end = logical_end(text, offset)
        if text.startswith("\t", offset):
            read_words(builder, offset, end, joins=False)
        else:
            _first_hash(builder, _MAKE_HASH, offset, end)
        builder.joined(builder.row(offset), builder.row(max(offset, end - 1)))
        offset = _next(builder, end)


def _read_dockerfile(builder: LayoutBuilder, document: Document) -> None:
    """Comments stand on lines of their own, also between continued ones."""
    first, waiting = 0, ""
    for row, start in enumerate(builder.starts, 1):
        line = builder.text[start : builder.line_end(start)]
        if waiting:
            waiting = "" if line.strip() == waiting else waiting
            if not waiting:
                builder.joined(first, row)
                first = 0
        elif line.lstrip(" \t").startswith("#"):
            builder.comment(start + len(line) - len(line.lstrip(" \t")))
        elif line.endswith("\\"):
            first = first or row
        elif line.strip() or not first:
            heredoc = _DOCKER_HEREDOC.search(line)
            if heredoc is not None:
                first, waiting = first or row, heredoc[1]
                continue
            builder.joined(first or row, row)
            first = 0


def _first_hash(builder: LayoutBuilder, pattern: re.Pattern[str], start: int, end: int) -> None:
    found = pattern.search(builder.text, start, end)
    if found is not None:
        builder.comment(found.end() - 1)


def _next(builder: LayoutBuilder, end: int) -> int:
    """The start of the row behind the one that ends at ``end``."""
    row = builder.row(end)
    return builder.starts[row] if row < len(builder.starts) else len(builder.text)


READERS: Mapping[str, Callable[[LayoutBuilder, Document], None]] = {
    "shell": _read_shell,
    "env": _read_env,
    "makefile": _read_makefile,
    "dockerfile": _read_dockerfile,
}
