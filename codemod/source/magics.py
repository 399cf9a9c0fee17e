"""The lines of a notebook cell that only IPython understands: masked as ``pass`` statements, and back."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..model import EditRefused
from .parsing import Unparsable, parse_python

MARKER = "#precfix-magic"
MASK = f"pass  {MARKER}:"
"""Stands for the indented line whose rest follows."""
CONTINUED = f"pass  {MARKER}+"
"""Stands for a continuation line; the whole line follows, because its own indentation means nothing to Python."""

PYTHON_CELL_MAGICS = frozenset(
    {
        "capture",
        "debug",
        "heat",
        "lprun",
        "memit",
        "mprun",
        "notify",
        "prun",
        "pyinstrument",
        "scalene",
        "snakeviz",
        "time",
        "timeit",
        "wandb",
    }
)
"""``%%`` magics whose cell is still Python run in the notebook's own namespace."""

SHELL_CELL = re.compile(r"(?:[ \t]*\r?\n)*%%(?:!|(?:bash|sh|shell|sx|system|script[ \t]+(?:/\S*/)?(?:ba|z)?sh)(?!\S))")
"""How a cell begins that is a shell script as a whole."""

WRITTEN_CELL = re.compile(
    r"(?:[ \t]*\r?\n)*%%(?:writefile|file)[ \t]+(?:-a[ \t]+|--append[ \t]+)?"
    r"(?P<name>[^\s\"']+\.(?:sh|bash|slurm|ya?ml|json|toml|env))[ \t]*(?:\r?\n|$)"
)
"""How a cell begins that writes a file of settings, or a script that starts programs."""

_LINES = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_BLANK = " \t\f"


@dataclass(slots=True)
class _Lexer:
    """How far a line is inside brackets, strings and backslash continuations when it begins."""

    depth: int = 0
    quote: str = ""
    continued: bool = False

    @property
    def at_statement(self) -> bool:
        return not (self.depth or self.quote or self.continued)

    def advance(self, line: str) -> None:
        """Read one physical line without its newline."""
        self.continued = False
        at = 0
        while at < len(line):
            char = line[at]
            if char == "\\":
                self.continued = at + 1 == len(line)
                at += 2
            elif self.quote:
                at += self._inside_string(line, at)
            elif char == "#":
                return
            elif char in "\"'":
                self.quote = char * 3 if line.startswith(char * 3, at) else char
                at += len(self.quote)
            else:
                self.depth = max(0, self.depth + (char in "([{") - (char in ")]}"))
                at += 1
        if len(self.quote) == 1 and not self.continued:
            self.quote = ""  # an error that the parser will report

    def _inside_string(self, line: str, at: int) -> int:
        if not line.startswith(self.quote, at):
            return 1
        length = len(self.quote)
        self.quote = ""
        return length


def mask_cell(text: str) -> str | None:
    """A cell's source with IPython's lines masked, row for row; None when the whole cell is another language's.

    What comes back need not be valid Python: the caller parses it.
    """
    if SHELL_CELL.match(text) or WRITTEN_CELL.match(text):
        return _mask_whole(text)
    first = text.lstrip()
    if first.startswith("%%") and _word(first[2:]) not in PYTHON_CELL_MAGICS:
        return None
    try:
        parse_python(text)
    except Unparsable:
        return _mask_lines(text)
    return text


def _mask_whole(text: str) -> str:
    """A cell without a line of Python, as one magic with lines that continue it."""
    above = text[: len(text) - len(text.lstrip())]
    first, *rest = _LINES.findall(text[len(above) :])
    return "".join((above, MASK, first, *(CONTINUED + line for line in rest)))


def _mask_lines(text: str) -> str:
    out: list[str] = []
    lexer = _Lexer()
    magic_indent: str | None = None  # that of the magic whose next line this is
    for line in _LINES.findall(text):
        bare = line.rstrip("\r\n")
        if magic_indent is not None:
            out.append(magic_indent + CONTINUED + line)
        elif lexer.at_statement and _is_magic(bare):
            rest = line.lstrip(_BLANK)
            magic_indent = line[: len(line) - len(rest)]
            out.append(magic_indent + MASK + rest)
        else:
            lexer.advance(bare)
            out.append(line)
            continue
        if not bare.endswith("\\"):
            magic_indent = None
    return "".join(out)


def unmask_cell(masked: str) -> str:
    """The source of a masked cell; raises `EditRefused` when a mask is no longer a line of its own."""
    return "".join(_unmask_line(line) for line in _LINES.findall(masked))


def _unmask_line(line: str) -> str:
    rest = line.lstrip(_BLANK)
    if rest.startswith(MASK):
        return line[: len(line) - len(rest)] + rest[len(MASK) :]
    if rest.startswith(CONTINUED):
        return rest[len(CONTINUED) :]
    if MARKER in line:
        raise EditRefused("an IPython line of a notebook cell was moved into other code")
    return line


def shell_start(rest: str) -> int | None:
    """Where in a masked line's text ``!command``, ``%env``, a shell cell or a written file begins; None for others."""
    if rest.startswith("!") or SHELL_CELL.match(rest) or WRITTEN_CELL.match(rest):
        return 0
    if rest.startswith("%") and _word(rest[1:]) in ("env", "set_env", "sx", "system"):
        return 0
    target, equals, value = rest.partition("=")
    if equals and value.lstrip().startswith("!") and not target.startswith("%"):
        return len(rest) - len(value.lstrip())
    return None


def _is_magic(line: str) -> bool:
    bare = line.strip()
    if bare.startswith(("%", "!", "?")):
        return True
    if bare.endswith("?") and not any(char in bare for char in "#\"'"):
        return True
    target, equals, value = bare.partition("=")
    return bool(equals) and value.lstrip().startswith(("%", "!")) and not any(char in target for char in "#\"'(")


def _word(text: str) -> str:
    words = text.split(None, 1)
    return words[0] if words else ""
