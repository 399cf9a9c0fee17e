"""Files that are not shell but hold shell: .env files, Makefiles, Dockerfiles, notebook cells."""

from __future__ import annotations

import json
import re

from .lines import line_end, next_line
from .shell_commands import CommandReader
from .shell_words import ASSIGNMENT, Tokenizer, Unclosed, Word
from .text import Heredoc

_SHELL_SYNTAX = re.compile(r"^[ \t]*(?:(?:if|then|else|fi|for|while|do|done|case|esac|function)\b|[{}(]|\w+\(\))", re.M)
_ENV = re.compile(r"[ \t]*(export[ \t]+)?([A-Za-z_][\w.-]*)[ \t]*=[ \t]*")
_QUOTED = re.compile(r"\"[^\"\\]*(?:\\.[^\"\\]*)*\"|'[^']*'", re.DOTALL)
_MAKE = re.compile(
    r" *(?:[^\s:=#][^:=#\n]*:[ \t]*)?(?:(?:export|override|private)[ \t]+)*"
    r"([A-Za-z_][\w.-]*)[ \t]*(?:\?|:{1,3}|\+|!)?=[ \t]*"
)
_RECIPE = re.compile(r"\t[ \t]*[@+-]*[ \t]*")
_DOCKER = re.compile(r"[ \t]*(ENV|ARG|RUN|CMD|ENTRYPOINT)[ \t]+(?:--(?:mount|network|security)=\S+[ \t]+)*", re.I)
_DOCKER_PAIR = re.compile(r"([A-Za-z_]\w*)[ \t]+")
_JSON_STRING = re.compile(r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"')
_CELL_SHELL = re.compile(
    r"%%(?:!|(?:bash|sh|shell|sx|system|script[ \t]+(?:--\S+[ \t]+)*(?:/\S*/)?(?:ba|z)?sh)\b)[^\n]*"
)
_CELL_FILE = re.compile(r"%%(?:writefile|file)[ \t]+(?:-a[ \t]+|--append[ \t]+)?([^\r\n]*)")
_BANG = re.compile(
    r"[ \t]*(?:[A-Za-z_]\w*[ \t]*=[ \t]*)?(?:!{1,2}(?!=)|%(?:run|sx|system|bash|sh)[ \t]+(?:-\w+[ \t]+)*)[ \t]*"
)
_MAGIC_ENV = re.compile(r"[ \t]*%(?:set_)?env[ \t]+([A-Za-z_]\w*)(?:[ \t]*=[ \t]*|[ \t]+)")


def read_env(text: str, reader: CommandReader) -> None:
    """A file of ``KEY=value`` lines, sourced by a shell or read by a dotenv library."""
    if _SHELL_SYNTAX.search(text):
        reader.read(0, len(text))
        return
    offset = 0
    while offset < len(text):
        offset = next_line(text, _env_line(text, offset, reader))


def _env_line(text: str, start: int, reader: CommandReader) -> int:
    """Read the entry that begins at ``start``; returns its end."""
    end = logical_end(text, start)
    match = _ENV.match(text, start, end)
    if match is None:
        _read_or_skip(reader, start, end)
        return end
    first = match.end()
    quoted = _QUOTED.match(text, first)
    if quoted is not None:
        end = logical_end(text, quoted.end())
        if _only_comment(text[quoted.end() : end]):
            reader.assignment(match[2], match.end(2), (first, quoted.end()), (start, end))
        else:
            _read_or_skip(reader, start, end)
        return end
    value = text[first:end]
    # ``export A=b C=d`` is two variables; ``A=b --c d`` is one for dotenv readers and nonsense for a shell.
    several = "=" in value and all(ASSIGNMENT.match(word) for word in value.partition(" #")[0].split()[1:])
    if (several and len(value.split()) > 1) or "\\\n" in value or "\\\r" in value or "$(" in value:
        _read_or_skip(reader, start, end)
        return end
    last = first + len(_without_comment(value))
    reader.assignment(match[2], match.end(2), (first, last), (start, end))
    return end


def read_makefile(text: str, reader: CommandReader) -> None:
    """Variables and recipe lines."""
    offset = 0
    while offset < len(text):
        end = logical_end(text, offset)
        recipe = _RECIPE.match(text, offset, end)
        variable = _MAKE.match(text, offset, end)
        if recipe is not None:
            _read_or_skip(reader, recipe.end(), end)
        elif variable is not None:
            last = variable.end() + len(_without_comment(text[variable.end() : end]))
            reader.assignment(variable[1], variable.end(1), (variable.end(), last), (offset, end))
        offset = next_line(text, end)


def read_dockerfile(text: str, reader: CommandReader) -> None:
    """ENV, ARG, RUN, CMD and ENTRYPOINT in shell and exec form."""
    offset = 0
    while offset < len(text):
        end = _docker_end(text, offset)
        match = _DOCKER.match(text, offset, end)
        if match is not None and match[1].upper() in {"ENV", "ARG"}:
            _docker_variables(text, reader, match.end(), offset, end)
        elif match is not None and text.startswith("[", match.end()):
            reader.list_of_words(_exec_words(text, match.end(), end), layout="exec")
        elif match is not None:
            _read_or_skip(reader, match.end(), end)
        offset = next_line(text, end)


def read_list(text: str, reader: CommandReader) -> None:
    """A list of words, each in double quotes: ``["python", "train.py", "--fp16"]``."""
    reader.list_of_words(_exec_words(text, 0, len(text)), layout="exec")


def read_notebook(text: str, reader: CommandReader) -> None:
    """One cell: ``!`` lines, ``%env``, ``%run``, and whole cells of shell or of a file."""
    first = len(text) - len(text.lstrip())
    written = _CELL_FILE.match(text, first)
    if written is not None:
        start = next_line(text, written.end())
        reader.heredocs.append(Heredoc(written[1].strip().strip("\"'"), start, len(text), True, "writefile"))
        return
    shell = _CELL_SHELL.match(text, first)
    if shell is not None:
        reader.read(next_line(text, shell.end()), len(text))
        return
    offset = 0
    while offset < len(text):
        end = line_end(text, offset)
        variable = _MAGIC_ENV.match(text, offset, end)
        bang = _BANG.match(text, offset, end)
        if variable is not None:
            last = variable.end() + len(text[variable.end() : end].rstrip(" \t"))
            reader.assignment(variable[1], variable.end(1), (variable.end(), last), (offset, end))
        elif bang is not None:
            end = logical_end(text, offset)
            _read_or_skip(reader, bang.end(), end)
        offset = next_line(text, end)


def logical_end(text: str, offset: int) -> int:
    """The end of the line at ``offset``, lines joined by a final backslash counting as one."""
    end = line_end(text, offset)
    while end < len(text) and text[offset:end].endswith("\\") and not text[offset:end].endswith("\\\\"):
        offset = next_line(text, end)
        end = line_end(text, offset)
    return end


def _docker_end(text: str, offset: int) -> int:
    """Like `logical_end`; Docker also skips comment lines between continued ones."""
    end = logical_end(text, offset)
    continued = text[offset:end].find("\\\n") >= 0 or text[offset:end].find("\\\r") >= 0
    while continued and end < len(text) and _last_line(text, offset, end).lstrip().startswith("#"):
        end = logical_end(text, next_line(text, end))
    return end


def _last_line(text: str, offset: int, end: int) -> str:
    return text[max(text.rfind("\n", offset, end) + 1, offset) : end]


def _docker_variables(text: str, reader: CommandReader, start: int, first: int, end: int) -> None:
    pair = _DOCKER_PAIR.match(text, start, end)
    if pair is not None:
        last = pair.end() + len(text[pair.end() : end].rstrip(" \t"))
        reader.assignment(pair[1], pair.end(1), (pair.end(), last), (first, end))
        return
    try:
        words = [token for token in Tokenizer(text, start, end).run() if isinstance(token, Word)]
    except Unclosed:
        return
    statement = (first, end) if len(words) == 1 else (-1, -1)
    for word in words:
        match = ASSIGNMENT.match(text, word.start, word.end)
        if match is not None:
            reader.assignment(match[1], match.end(1), (match.end(), word.end), statement)


def _exec_words(text: str, start: int, end: int) -> list[Word]:
    words: list[Word] = []
    for match in _JSON_STRING.finditer(text, start, end):
        try:
            words.append(Word(match.start(), match.end(), str(json.loads(match[0]))))
        except ValueError:
            return []
    return words


def _read_or_skip(reader: CommandReader, start: int, end: int) -> None:
    """A line that is no shell says nothing; the rest of the file still does."""
    try:
        reader.read(start, end)
    except Unclosed:
        return


def _only_comment(rest: str) -> bool:
    return not rest.strip() or rest.lstrip(" \t").startswith("#")


def _without_comment(value: str) -> str:
    """The value without a trailing comment and blanks; ``#`` counts only behind a blank."""
    if value.startswith("#"):
        return ""
    return re.split(r"[ \t]#", value, maxsplit=1)[0].rstrip()
